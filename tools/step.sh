#!/usr/bin/env bash
# step.sh TITLE COMMAND…: runs COMMAND as step STEP of STEPS. It prints the purpose and the duration
# of the step (from steps.txt, or from its last run), shows the progress, keeps the output in
# out/log, and shows the end of the output if the command fails.
# On a terminal, one line shows the progress. Elsewhere, it prints a line after STEP_EVERY (15)
# seconds, and doubles the pauses up to two minutes.
set -uo pipefail
title=$1
shift
log=${OUT:-out}/log/${title//[^a-zA-Z0-9.-]/-}.log
took=${log%.log}.seconds
if ! { mkdir -p "$(dirname "$log")" && : >"$log"; } 2>/dev/null; then
  # This happens after a run with sudo, or on a full disk.
  echo "outrigger: $log cannot be written; free space, or take over what belongs to another user: sudo chown -R \"\$USER\" bin out" >&2
  exit 1
fi
start=$SECONDS
terminal=
[ ! -t 1 ] || terminal=yes

# announce: prints the title, the purpose and the duration of the step.
announce() {
  local first what time
  IFS=$'\t' read -r first what < <(awk -F ' *[|] *' -v title="$title" '$1 == title { print $2 "\t" $3 }' "$(dirname "$0")/steps.txt")
  time=${first:+about $first the first time}
  [ ! -s "$took" ] || time="$(cat "$took") s last time"
  printf '%s%s%s%s\n' "${STEP:+step $STEP${STEPS:+ of $STEPS}: }" "$title" "${what:+: $what}" "${time:+ ($time)}"
}

# progress: shows the time and the newest line of the log.
progress() {
  local line="  … $((SECONDS - start)) s  $(tail -n 1 "$log" 2>/dev/null | cut -c 1-80)"
  if [ -n "$terminal" ]; then printf '\r\033[K%s' "$line"; else printf '%s\n' "$line"; fi
}

# clear: removes the progress line.
clear() { [ -z "$terminal" ] || printf '\r\033[K'; }

announce
# Shows the progress in the background. It ends with this script, even if the script is killed.
(
  every=${STEP_EVERY:-15} next=${STEP_EVERY:-15}
  while sleep 1 >/dev/null 2>&1; do
    kill -0 $$ 2>/dev/null || exit
    if [ -n "$terminal" ]; then progress && continue; fi
    [ $((SECONDS - start)) -ge "$next" ] || continue
    progress
    every=$((every * 2 > 120 ? 120 : every * 2))
    next=$((SECONDS - start + every))
  done
) &
clock=$!
trap 'kill $clock 2>/dev/null' EXIT

"$@" >"$log" 2>&1
rc=$?
kill $clock 2>/dev/null
wait $clock 2>/dev/null
clear
if [ $rc -ne 0 ]; then
  printf '✗ %s failed after %d s (exit %d); the end of %s:\n' "$title" $((SECONDS - start)) $rc "$log" >&2
  tail -n 30 "$log" >&2
  exit $rc
fi
echo $((SECONDS - start)) >"$took"
printf '✓ %s (%d s)\n' "$title" $((SECONDS - start))
