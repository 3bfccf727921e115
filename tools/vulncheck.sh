#!/usr/bin/env bash
# vulncheck.sh [MODULE…]: fails if a module calls code with a known vulnerability, unless
# tools/govulncheck/accepted.txt has the reason why that is no risk. Without arguments, it checks all
# modules. The database is a Go module too, so the check needs no network.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD accepted=tools/govulncheck/accepted.txt
export GOWORK=off
. tools/compile.env
unset GOFLAGS GOGC GOMEMLIMIT # for compilers
modules=("$@")
[ $# -gt 0 ] || mapfile -t modules < <(tools/modules.sh)
database=$(cd tools/govulncheck && go list -m -f '{{.Dir}}' golang.org/x/vulndb)
status=0 seen=' '
for module in "${modules[@]}"; do
  echo "── vulnerabilities of $module"
  code=0
  found=$(cd "$module" && "$root/bin/govulncheck" -db "file://$database/data/osv" -tags "$tags,e2e" ./... 2>&1) || code=$?
  # 3 means that there are findings.
  [ $code = 0 ] || [ $code = 3 ] || { echo "$found"; status=1; }
  for id in $(sed -n 's/^Vulnerability #[0-9]*: //p' <<<"$found"); do
    seen="$seen$id "
    grep -q "^$id *|" $accepted && continue
    # The traces are long.
    grep -A 9 -E "^Vulnerability #[0-9]+: $id$" <<<"$found" | cut -c 1-200
    echo "outrigger: $module calls code with the vulnerability $id: update the module that \"Fixed in\" names (Go: GO_VERSION in versions.mk), or write into $accepted why it is no risk: $id | REASON" >&2
    status=1
  done
done
[ $# -eq 0 ] || exit $status
for id in $(sed -n 's/^\(GO-[0-9-]*\) *|.*/\1/p' $accepted); do
  [[ $seen == *" $id "* ]] || { echo "outrigger: $accepted has $id, which no module has any more: remove the line" >&2; status=1; }
done
exit $status
