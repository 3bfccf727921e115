#!/usr/bin/env bash
# soak.sh: runs every fuzz target of the repository for SOAK (2m) each, and then
# lets the device plugin work for long. Logs go to out/soak. It ends with a table
# of what was run, and fails when one of them found something. The input that
# broke a fuzz target is left in the testdata of its package: it is its test.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export GOWORK=off CGO_ENABLED=1
link=-ldflags=-extldflags=-Wl,-z,lazy
soak=${SOAK:-2m}
case $soak in
*[!0-9smh]* | [smh]* | *[smh]?* | '')
  echo "soak.sh: SOAK=$soak: want a number with s, m or h, such as 2m" >&2
  exit 1
  ;;
*s) seconds=${soak%s} ;;
*m) seconds=$((${soak%m} * 60)) ;;
*h) seconds=$((${soak%h} * 3600)) ;;
*) seconds=$soak soak=${soak}s ;;
esac
logs=$root/out/soak
table=$logs/summary.txt
rm -rf "$logs"
mkdir -p "$logs"
: >"$table"
status=0

# row TARGET RESULT NOTE…
row() {
  printf '%-62s %-7s %s\n' "$1" "$2" "${*:3}" | tee -a "$table"
}

# targets: prints "PACKAGE NAME" for each fuzz target of the module.
targets() {
  go test "$link" -list '^Fuzz' ./... 2>&1 | tee "$logs/list.log" | awk '/^Fuzz/ {names[n++] = $1} /^ok/ {for (i = 0; i < n; i++) print $2, names[i]; n = 0}'
}

# executed LOG: how much was tried.
executed() {
  sed -n 's/.*\(execs: [0-9]*\).*\(new interesting: [0-9]*\).*/\1, \2/p' "$1" | tail -n 1
}

# raced LOG: Go before 1.27 may report the end of the time itself as a failure
# (go.dev/issue/75804). Then there is nothing but that line: no input, no panic.
raced() {
  local said
  said=$(sed -n '/^--- FAIL/,$p' "$1" | grep -v -e '^--- FAIL: Fuzz' -e '^FAIL' -e '^exit status')
  [ "$said" = "    context deadline exceeded" ]
}

# fuzz PACKAGE NAME: the fuzzer may stall while it makes an input small, so that
# is bounded, and so is all of it.
fuzz() {
  local log=$logs/${1//\//-}-$2.log title="${1#*/} $2"
  if timeout $((2 * seconds + 600)) go test "$link" -run '^$' -fuzz "^$2\$" -fuzztime "$soak" -fuzzminimizetime 10x "$1" >"$log" 2>&1; then
    row "$title" ok "$(executed "$log")"
    return
  fi
  if raced "$log"; then
    row "$title" ok "$(executed "$log") (go.dev/issue/75804 at its end)"
    return
  fi
  status=1
  row "$title" FAILED "see $log"
  tail -n 20 "$log" >&2
}

for module in $(tools/modules.sh); do
  cd "$root/$module" || exit 1
  if ! found=$(targets); then
    status=1
    row "$module" FAILED "its tests do not build"
    tail -n 20 "$logs/list.log" >&2
  fi
  while read -r package name; do
    [ -z "$name" ] || fuzz "$package" "$name"
  done <<<"$found"
done

cd "$root" || exit 1
if bin/bench soak --out "$logs" 2>"$logs/bench.log" | tee "$logs/work.txt"; then
  row "device-plugin at work" ok "$(head -n 1 "$logs/work.txt")"
else
  status=1
  row "device-plugin at work" FAILED "see $logs"
  tail -n 20 "$logs/bench.log" >&2
fi
echo
cat "$table"
exit $status
