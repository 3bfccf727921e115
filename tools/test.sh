#!/usr/bin/env bash
# test.sh [--complete] [-tags TAGS] [MODULE…]: runs the tests of the modules, as test-events.sh
# says, names what was skipped and why, and ends with one line: N passed, N failed, N skipped.
# With --complete root runs it, and all that tests use is built: a test may then be skipped only
# for what this machine is ("this machine …") or for a program that people install by themselves
# (docker.io); any other skipped test is a failure. Up to three tests that failed, but not of a
# data race or a panic, are run once more, alone: most of the tests wait for other programs on a
# machine that may be busy. Those that pass then are named.
set -uo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off CGO_ENABLED=1 OUTRIGGER_BIN=$PWD/bin
complete=
if [ "${1:-}" = --complete ]; then complete=yes; shift; fi
events=$PWD/out/test/events.json
mkdir -p "$(dirname "$events")"

bin/gotestsum --raw-command --format "${TEST_FORMAT:-pkgname}" --format-hide-empty-pkg \
  --rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race \
  --jsonfile "$events" -- tools/test-events.sh "$@"
status=$?

field='function field(name) {
  if (!match($0, "\"" name "\":\"([^\"\\\\]|\\\\.)*\"")) return ""
  return substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 5)
}'
# Prints "PACKAGE TEST: REASON" for each skipped test.
skipped() {
  awk "$field"'
    { test = field("Package") " " field("Test"); action = field("Action") }
    action == "output" && match($0, /_test\.go:[0-9]+: |simtest\.go:[0-9]+: /) {
      text = field("Output"); sub(/^.*\.go:[0-9]+: /, "", text); sub(/\\n$/, "", text); reason[test] = text
    }
    action == "skip" && field("Test") != "" { print test ": " reason[test] }' "$events"
}

# results: prints "ACTION PACKAGE TEST" for each test: how it ended the last time, "again" for
# one that failed and then passed.
results() {
  grep -F '"Test":' "$events" | grep -E '"Action":"(pass|fail|skip)"' | awk "$field"'
    { test = field("Package") " " field("Test"); action = field("Action"); before = end[test] }
    { end[test] = before == "fail" && action == "pass" ? "again" : action }
    END { for (test in end) print end[test], test }'
}
ends=$(results)
count() { grep -cE "^($1) " <<<"$ends"; }
passed=$(count 'pass|again') failed=$(count fail)
again=$(sed -n 's/^again //p' <<<"$ends" | sort)
[ -z "$again" ] || printf 'failed, and passed when they were run once more:\n%s\n' "$again"
# A package that does not build or that dies has no failed test of its own.
[ $status -eq 0 ] || [ "$failed" -gt 0 ] || failed=1

list=$(skipped) wrong=
[ -z "$list" ] || printf 'skipped:\n%s\n' "$list"
[ -z "$complete" ] || wrong=$(grep -v -e ': .*this machine' -e ': .*docker\.io' <<<"$list" | grep .)
if [ -n "$wrong" ]; then
  printf 'these must run here, and were skipped:\n%s\n' "$wrong" >&2
  failed=$((failed + $(wc -l <<<"$wrong"))) status=1
fi
echo "$passed passed, $failed failed, $(grep -c . <<<"$list") skipped"
exit $status
