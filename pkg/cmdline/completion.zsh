# Completes the words of NAME, which lists the possible words if its last argument is FLAG.
# After --, NAME would run the command instead, so this script does not start NAME.
_NAME_complete() {
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
