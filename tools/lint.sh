#!/usr/bin/env bash
# lint.sh [MODULE…]: runs golangci-lint on each module, and checks that "make sync" would not change
# it. Without arguments, it checks all modules and the workflows of GitHub.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export GOWORK=off
modules=("$@")
[ $# -gt 0 ] || mapfile -t modules < <(tools/modules.sh)
status=0
for module in "${modules[@]}"; do
  echo "── lint $module"
  (cd "$module" && "$root/bin/golangci-lint" run --build-tags e2e --config "$root/.golangci.yml" ./...) || status=1
  (cd "$module" && go mod tidy -diff) || status=1
done
if [ $# -eq 0 ]; then
  echo "── lint workflows"
  # shellcheck would only run on machines that have it.
  bin/actionlint -shellcheck= -pyflakes= .github/workflows/*.yaml docs/examples/simulated/github.yaml || status=1
fi
exit $status
