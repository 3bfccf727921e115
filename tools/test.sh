#!/usr/bin/env bash
# test.sh [-tags TAGS] [MODULE…]: runs the tests of the modules, each alone and
# with the race detector, names what failed and what was skipped and why, and
# ends with one line: N passed, N failed, N skipped.
set -uo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off CGO_ENABLED=1 OUTRIGGER_BIN=$PWD/bin
events=$PWD/out/test/events.json
mkdir -p "$(dirname "$events")"

bin/gotestsum --raw-command --format "${TEST_FORMAT:-pkgname}" --format-hide-empty-pkg \
  --jsonfile "$events" -- tools/test-events.sh "$@"
status=$?

count() { grep -F '"Test":' "$events" | grep -cF "\"Action\":\"$1\""; }
failed=$(count fail)
# A package that does not build or that dies has no failed test of its own.
[ $status -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
echo "$(count pass) passed, $failed failed, $(count skip) skipped"
exit $status
