package cmdline

import (
	"embed"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// completionFlag is the argument that the scripts add to the words before the cursor. With it, a program lists the
// possible next words, one per line: its commands, or its flags if the word before completionFlag begins with "-".
// The shell completes file names itself.
const completionFlag = "--generate-bash-completion"

//go:embed completion.bash completion.fish completion.zsh
var scripts embed.FS

// completion returns the command that prints the script for a shell. In the scripts, NAME stands for the program,
// and FLAG for completionFlag.
func completion(name string) *cli.Command {
	return &cli.Command{
		Name: "completion", ArgsUsage: "SHELL",
		Usage: "print a script that completes commands and flags in a shell: bash, zsh or fish",
		Description: "Load it with: source <(" + name + " completion bash), in zsh with zsh in place of bash.\n" +
			"In fish: " + name + " completion fish | source",
		BashComplete: func(c *cli.Context) { _, _ = fmt.Fprintln(c.App.Writer, "bash\nzsh\nfish") },
		Action: func(c *cli.Context) error {
			shell := strings.Join(c.Args().Slice(), " ")
			script, err := scripts.ReadFile("completion." + shell)
			if err != nil {
				return onUsageError(c, fmt.Errorf("argument of completion: invalid value %q: must be bash, zsh or fish", shell), true)
			}
			_, err = strings.NewReplacer("NAME", name, "FLAG", completionFlag).WriteString(c.App.Writer, string(script))
			return err
		},
	}
}
