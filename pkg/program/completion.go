package program

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// script completes the words of a program in bash, and in zsh with its bashcompinit. The
// program lists its commands, and its flags if the last word begins with "-". It is not
// asked after "--", where it would run the command. The default of the shell completes
// everything else: names of files.
const script = `_NAME_complete() {
  local word=${COMP_WORDS[COMP_CWORD]} before=("${COMP_WORDS[@]:0:COMP_CWORD}") ask=() item
  COMPREPLY=()
  for item in "${before[@]}"; do [ "$item" != -- ] || return 0; done
  case $word in --) ask=(-) ;; -*) ask=("$word") ;; esac
  while IFS= read -r item; do
    item=${item%%:*}
    case $item in "$word"*) COMPREPLY+=("$item") ;; esac
  done < <("${before[@]}" "${ask[@]}" --generate-bash-completion 2>/dev/null)
}
complete -o default -F _NAME_complete NAME
`

// zsh loads what the script needs.
const zsh = "autoload -U +X bashcompinit && bashcompinit\n"

// completion returns the command that prints the script.
func completion(name string) *cli.Command {
	shell := func(shell, before string) *cli.Command {
		return &cli.Command{
			Name: shell, Usage: "print the completion script for " + shell,
			Action: func(c *cli.Context) error {
				_, err := fmt.Fprint(c.App.Writer, before+strings.ReplaceAll(script, "NAME", name))
				return err
			},
		}
	}
	return &cli.Command{
		Name:        "completion",
		Usage:       "print a script that completes commands and flags in a shell",
		Description: "Load it with: source <(" + name + " completion bash)",
		Subcommands: []*cli.Command{shell("bash", ""), shell("zsh", zsh)},
	}
}
