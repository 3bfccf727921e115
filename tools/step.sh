#!/usr/bin/env bash
# step.sh TITLE COMMAND…: runs COMMAND as step STEP of STEPS. It says what the step does
# and how long it takes (steps.txt has both; later, what it took last time), shows that it
# still works, keeps its output in out/log, and shows the end of it when it fails.
# On a terminal one line shows the progress. Elsewhere a line follows after STEP_EVERY
# (15) seconds, and the pauses double up to two minutes.
set -uo pipefail
title=$1
shift
log=${OUT:-out}/log/${title//[^a-zA-Z0-9.-]/-}.log
took=${log%.log}.seconds
if ! { mkdir -p "$(dirname "$log")" && : >"$log"; } 2>/dev/null; then
  # As after a run with sudo, or on a full disk.
  echo "outrigger: $log cannot be written; free space, or take over what belongs to another user: sudo chown -R \"\$USER\" bin out" >&2
  exit 1
fi
start=$SECONDS
terminal=
[ ! -t 1 ] || terminal=yes

# announce: prints which step begins, what it does and how long it takes.
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

# clear: removes the line of progress.
clear() { [ -z "$terminal" ] || printf '\r\033[K'; }

announce
# A clock in the background; it ends with this script, however that ends.
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
