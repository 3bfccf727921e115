#!/usr/bin/env bash
# test.sh [--complete] [-tags TAGS] [MODULE…]: runs the tests of the modules with test-events.sh,
# lists skipped tests with their reasons, and ends with one line: N passed, N failed, N skipped.
# With --complete, root runs it, and all programs that tests use are built. Then a skipped test is a
# failure, unless the reason is a property of the machine ("this machine …") or a program that
# people install themselves (docker.io). Also, 1000 random sequences of what happens to a node run.
# If at most three tests fail, without a data race or a panic, they run once more, alone, because
# most tests wait for other programs and the machine may be busy. Tests that pass then are listed.
set -uo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off CGO_ENABLED=1 OUTRIGGER_BIN=$PWD/bin
complete=
if [ "${1:-}" = --complete ]; then complete=yes OUTRIGGER_SEQUENCES=${OUTRIGGER_SEQUENCES:-1000}; export OUTRIGGER_SEQUENCES; shift; fi
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
# skipped: prints "PACKAGE TEST: REASON" for each skipped test.
skipped() {
  awk "$field"'
    { test = field("Package") " " field("Test"); action = field("Action") }
    action == "output" && match($0, /_test\.go:[0-9]+: |simtest\.go:[0-9]+: /) {
      text = field("Output"); sub(/^.*\.go:[0-9]+: /, "", text); sub(/\\n$/, "", text); reason[test] = text
    }
    action == "skip" && field("Test") != "" { print test ": " reason[test] }' "$events"
}

# results: prints "ACTION PACKAGE TEST" for each test, with its last result: pass, fail, skip, or
# "again" for a test that failed first and then passed.
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
# A package that does not build, or that crashes, has no failed test. Count it as one.
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
