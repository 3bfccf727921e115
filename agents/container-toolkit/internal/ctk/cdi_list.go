package ctk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/pkg/cmdline"
)

// listCommand returns "nvidia-ctk cdi list".
func (p *program) listCommand() *cli.Command {
	var dirs []string
	return &cli.Command{
		Name:  "list",
		Usage: "print the devices that the CDI specs of this node define",
		Flags: []cli.Flag{cmdline.List(&cli.StringSliceFlag{
			Name: "spec-dir", EnvVars: []string{"NVIDIA_CTK_CDI_SPEC_DIRS"}, Value: cli.NewStringSlice("/etc/cdi", "/var/run/cdi"),
			Usage: "`FOLDER` with CDI specs; can be repeated, the last one takes precedence",
		}, &dirs)},
		Action: func(c *cli.Context) error {
			set := inject.Load(dirs, nil)
			for _, dir := range dirs {
				if _, err := os.Stat(dir); c.IsSet("spec-dir") && errors.Is(err, fs.ErrNotExist) {
					set.Problems = append(set.Problems, fmt.Errorf("flag --spec-dir: the folder %s does not exist", dir))
				}
			}
			for _, err := range append(set.Problems, set.Conflicts()...) {
				fmt.Fprintln(p.stderr, "nvidia-ctk:", err)
			}
			if len(set.Names()) == 0 {
				fmt.Fprintf(p.stderr, "nvidia-ctk: no CDI spec in %s defines a device: write one with nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml\n", strings.Join(dirs, " and "))
			}
			for _, name := range set.Names() {
				fmt.Fprintln(p.stdout, name)
			}
			return nil
		},
	}
}
