// Package completion has the scripts with which shells complete the words of a program.
package completion

import (
	"slices"
	"strings"
)

// Flag is the last word of a command line that is to be completed. The program then
// lists what may follow, one per line. The name is that of urfave/cli.
const Flag = "--generate-bash-completion"

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
  done < <("${before[@]}" "${ask[@]}" FLAG 2>/dev/null)
}
complete -o default -F _NAME_complete NAME
`

// zsh loads what the script needs.
const zsh = "autoload -U +X bashcompinit && bashcompinit\n"

// Shells returns the shells that have a script.
func Shells() []string { return []string{"bash", "zsh"} }

// Script returns the script for a shell, and whether there is one.
func Script(shell, program string) (string, bool) {
	text := strings.NewReplacer("NAME", program, "FLAG", Flag).Replace(script)
	if shell == "zsh" {
		text = zsh + text
	}
	return text, slices.Contains(Shells(), shell)
}
