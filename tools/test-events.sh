#!/usr/bin/env bash
# test-events.sh [-tags TAGS] [MODULE…] [-test.run=PATTERN PACKAGE]: prints the events of
# "go test -json" of the modules, one after the other. It fails when one of them fails. With
# a pattern, which gotestsum appends, it runs these tests of one package alone.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
# With -trimpath another checkout finds these packages in Go's cache. The compiler
# collects its garbage less often (compile.env says why), the tests as ever.
export GOGC=400
args=(-race -count=1 -trimpath -exec "env -u GOGC" -timeout "${TEST_TIMEOUT:-45m}" -ldflags=-extldflags=-Wl,-z,lazy)
tags=()
if [ "${1:-}" = -tags ]; then
  tags=(-tags "$2")
  shift 2
fi
if [[ "${*: -2:1}" == -test.run=* ]]; then
  package=${*: -1} module=${package#outrigger.dev/}
  while [ ! -e "$module/go.mod" ]; do module=${module%/*}; done
  cd "$module"
  exec go test -json "${args[@]}" "${tags[@]}" "${*: -2:1}" "$package"
fi
modules=("$@")
[ $# -gt 0 ] || mapfile -t modules < <(tools/modules.sh)

status=0 later=$(mktemp) beside=
trap '[ -z "$beside" ] || kill "$beside" 2>/dev/null; rm -f "$later"' EXIT
for module in "${modules[@]}"; do
  cd "$root/$module"
  # Packages of the cluster's tests take turns: they use the whole machine.
  case $module in test/*) turns=(-p 1) ;; *) turns=() ;; esac
  packages=(./...)
  # newagent and schemas compute for minutes and use no cluster. At the lowest priority they do
  # not delay the other packages, which mostly wait for theirs. Their events follow.
  if [ "$module" = test/e2e ]; then
    nice -n 19 go test -json "${args[@]}" -p 1 ./newagent ./schemas >"$later" &
    beside=$!
    mapfile -t others < <(go list "${tags[@]}" ./... | grep -vE '/(newagent|schemas)$')
    [ ${#others[@]} -eq 0 ] || packages=("${others[@]}")
  fi
  go test -json "${args[@]}" "${tags[@]}" "${turns[@]}" "${packages[@]}" || status=1
  if [ -n "$beside" ]; then
    wait "$beside" || status=1
    beside=
    cat "$later"
  fi
done
exit $status
