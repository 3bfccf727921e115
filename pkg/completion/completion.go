// Package completion has the scripts with which shells complete the words of a program.
package completion

import (
	"slices"
	"strings"
)

// Flag is the last word of a command line that is to be completed. The program then
// lists what may follow, one per line. The name is that of urfave/cli.
const Flag = "--generate-bash-completion"

// Each script completes the words of a program in one shell. The program lists its
// commands, and its flags if the last word begins with "-". It is not asked after "--",
// where it would run the command. The shell completes everything else: names of files.
const (
	bash = `_NAME_complete() {
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
	zsh = `_NAME_complete() {
  local word=${words[CURRENT]}
  local -a before=("${(@Q)words[1,CURRENT-1]}") ask items
  if (( ! ${before[(Ie)--]} )); then
    case $word in --) ask=(-) ;; -*) ask=("$word") ;; esac
    items=(${(f)"$("${before[@]}" "${ask[@]}" FLAG 2>/dev/null)"})
  fi
  compadd -- "${(@)items%%:*}" || _files
}
(( $+functions[compdef] )) || { autoload -U compinit && compinit; }
compdef _NAME_complete NAME
`
	fish = `function _NAME_complete
  set -l before (commandline -opc)
  set -l word (commandline -ct)
  set -l ask
  set -l items
  switch $word
    case --
      set ask -
    case '-*'
      set ask $word
  end
  if not contains -- -- $before
    set items ($before $ask FLAG 2>/dev/null | string replace -r ':.*' '' | string match -- "$word*")
  end
  if set -q items[1]
    string collect -- $items
  else
    __fish_complete_path $word
  end
end
complete --command NAME --no-files --arguments '(_NAME_complete)'
`
)

// Shells returns the shells that have a script.
func Shells() []string { return []string{"bash", "zsh", "fish"} }

// Script returns the script for a shell, and whether there is one.
func Script(shell, program string) (string, bool) {
	script := map[string]string{"bash": bash, "zsh": zsh, "fish": fish}[shell]
	return strings.NewReplacer("NAME", program, "FLAG", Flag).Replace(script), slices.Contains(Shells(), shell)
}

// Hint says how to load the scripts of a program.
func Hint(program string) string {
	return "Load it with: source <(" + program + " completion bash), in zsh with zsh in place of bash.\nIn fish: " + program + " completion fish | source"
}
