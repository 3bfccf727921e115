#!/usr/bin/env bash
# test-events.sh [-tags TAGS] [MODULE…]: prints the events of "go test -json"
# of the modules, one after the other. It fails when one of them fails.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
args=(-race -count=1 -timeout "${TEST_TIMEOUT:-20m}" -ldflags=-extldflags=-Wl,-z,lazy)
if [ "${1:-}" = -tags ]; then
  args+=(-tags "$2")
  shift 2
fi
modules=("$@")
[ $# -gt 0 ] || mapfile -t modules < <(tools/modules.sh)

status=0
for module in "${modules[@]}"; do
  cd "$root/$module"
  # Packages of the cluster's tests take turns: they use the whole machine.
  case $module in test/*) turns=(-p 1) ;; *) turns=() ;; esac
  go test -json "${args[@]}" "${turns[@]}" ./... || status=1
done
exit $status
