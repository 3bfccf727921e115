#!/usr/bin/env bash
# test-events.sh [-tags TAGS] [MODULE…]: prints the events of "go test -json"
# of the modules, one after the other. It fails when one of them fails.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
# With -trimpath another checkout finds these packages in Go's cache. The compiler
# collects its garbage less often (compile.env says why), the tests as ever.
export GOGC=400
args=(-race -count=1 -trimpath -exec "env -u GOGC" -timeout "${TEST_TIMEOUT:-45m}" -ldflags=-extldflags=-Wl,-z,lazy)
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
