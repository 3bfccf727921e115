package app

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
)

// batchCommand runs many commands in one process, so that benchmarks measure the node and not the
// start of programs.
func batchCommand() *cli.Command {
	return &cli.Command{
		Name: "batch", Usage: "run commands from standard input, one per line",
		Description: "After the output of each command, batch prints \"ok\". The first command that fails ends the batch.\n" +
			"Lines are divided at spaces. All commands use the node of GPU_SIM_ROOT, unless they have their own --root.",
		Action: func(c *cli.Context) error {
			lines := bufio.NewScanner(c.App.Reader)
			for n := 1; lines.Scan(); n++ {
				words := strings.Fields(lines.Text())
				if len(words) == 0 {
					continue
				}
				if err := runInBatch(c, words); err != nil {
					return fmt.Errorf("batch: line %d: %w", n, err)
				}
				if _, err := fmt.Fprintln(c.App.Writer, "ok"); err != nil {
					return err
				}
			}
			return lines.Err()
		},
	}
}

func runInBatch(c *cli.Context, words []string) error {
	switch words[0] {
	case "batch", "exec":
		return fmt.Errorf("%s uses standard input: run it outside of batch", words[0])
	default:
		return cmdline.Run(c.Context, newApp(c.App.Writer, c.App.ErrWriter), append([]string{c.App.Name}, words...))
	}
}
