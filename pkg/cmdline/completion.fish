# Completes the words of NAME, which lists the possible words if its last argument is FLAG.
# After --, NAME would run the command instead, so this script does not start NAME.
function _NAME_complete
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
