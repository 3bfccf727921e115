#!/usr/bin/env bash
# step.sh TITLE COMMAND…: runs COMMAND, shows how long it takes while it takes
# long, keeps its output in out/log, and shows the end of it when it fails.
set -uo pipefail
title=$1
shift
log=${OUT:-out}/log/${title//[^a-zA-Z0-9.-]/-}.log
if ! { mkdir -p "$(dirname "$log")" && : >"$log"; } 2>/dev/null; then
  # As after a run with sudo, or on a full disk.
  echo "outrigger: $log cannot be written; free space, or take over what belongs to another user: sudo chown -R \"\$USER\" bin out" >&2
  exit 1
fi
start=$SECONDS

# A clock in the background; it ends with this script, however that ends.
(
  while sleep 5 >/dev/null 2>&1; do
    kill -0 $$ 2>/dev/null || exit
    printf '  … %s, %d s  %s\n' "$title" $((SECONDS - start)) "$(tail -n 1 "$log" 2>/dev/null | cut -c 1-80)"
  done
) &
clock=$!
trap 'kill $clock 2>/dev/null' EXIT

"$@" >"$log" 2>&1
rc=$?
kill $clock 2>/dev/null
wait $clock 2>/dev/null
if [ $rc -ne 0 ]; then
  printf '✗ %s failed after %d s (exit %d); the end of %s:\n' "$title" $((SECONDS - start)) $rc "$log" >&2
  tail -n 30 "$log" >&2
  exit $rc
fi
printf '✓ %s (%d s)\n' "$title" $((SECONDS - start))
