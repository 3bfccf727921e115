# Completes the words of NAME, which lists the possible words if its last argument is FLAG.
# After --, NAME would run the command instead, so this script does not start NAME.
_NAME_complete() {
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
