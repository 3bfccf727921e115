#!/usr/bin/env bash
# soak.sh: runs long tests: every fuzz target of the repository for SOAK (2m) each, 10,000 random
# sequences of changes of a node's GPUs, the agents on an NVML that fails, and the agents under load.
# Then it leaves the agents alone on a cluster for IDLE (10m), where they must not write anything,
# injects faults for CHAOS (30m), and loads the HTTP port of an agent for LOAD (10m) while a client
# probes the agent. Logs are in out/soak. It ends with a table of its runs, and fails if a run fails.
# An input that breaks a fuzz target stays in the testdata of the target's package, as a test.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export GOWORK=off CGO_ENABLED=1
link=-ldflags=-extldflags=-Wl,-z,lazy

# seconds NAME TIME: prints the value TIME of the variable NAME in seconds.
seconds() {
  case $2 in
  *[!0-9smh]* | [smh]* | *[smh]?* | 0* | '')
    echo "soak.sh: $1=$2: want a number with s, m or h, such as 2m" >&2
    return 1
    ;;
  *m) echo $((${2%m} * 60)) ;;
  *h) echo $((${2%h} * 3600)) ;;
  *) echo "${2%s}" ;;
  esac
}

soak=$(seconds SOAK "${SOAK:-2m}") && idle=$(seconds IDLE "${IDLE:-10m}") && chaos=$(seconds CHAOS "${CHAOS:-30m}") &&
  load=$(seconds LOAD "${LOAD:-10m}") || exit 1
logs=$root/out/soak
table=$logs/summary.txt
rm -rf "$logs"
mkdir -p "$logs"
: >"$table"
status=0

# row TARGET RESULT NOTE…: adds a row to the table.
row() {
  printf '%-62s %-7s %s\n' "$1" "$2" "${*:3}" | tee -a "$table"
}

# targets: prints "PACKAGE NAME" for each fuzz target of the module.
targets() {
  go test "$link" -list '^Fuzz' ./... 2>&1 | tee "$logs/list.log" | awk '/^Fuzz/ {names[n++] = $1} /^ok/ {for (i = 0; i < n; i++) print $2, names[i]; n = 0}'
}

# executed LOG: prints the number of executions and of new inputs.
executed() {
  sed -n 's/.*\(execs: [0-9]*\).*\(new interesting: [0-9]*\).*/\1, \2/p' "$1" | tail -n 1
}

# raced LOG: succeeds if the log only reports the end of the fuzz time as a failure, without an
# input and without a panic. Go before 1.27 may do that (go.dev/issue/75804).
raced() {
  local said
  said=$(sed -n '/^--- FAIL/,$p' "$1" | grep -v -e '^--- FAIL: Fuzz' -e '^FAIL' -e '^exit status')
  [ "$said" = "    context deadline exceeded" ]
}

# fuzz PACKAGE NAME: runs a fuzz target. The fuzzer may stall while it minimizes an input, so that
# step and the whole run have time limits.
fuzz() {
  local log=$logs/${1//\//-}-$2.log title="${1#*/} $2"
  if timeout $((2 * soak + 600)) go test "$link" -run '^$' -fuzz "^$2\$" -fuzztime "${soak}s" -fuzzminimizetime 10x "$1" >"$log" 2>&1; then
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

# work AGENT: runs the agent under load on a simulated node.
work() {
  if bin/bench --agent "$1" soak --out "$logs" 2>"$logs/$1-bench.log" | tee "$logs/$1.txt"; then
    row "$1 at work" ok "$(head -n 1 "$logs/$1.txt")"
    return
  fi
  status=1
  row "$1 at work" FAILED "see $logs"
  tail -n 20 "$logs/$1-bench.log" >&2
}

# on_cluster NAME TEST SECONDS VARIABLE EXPRESSION: runs a cluster test for SECONDS, which it passes
# in VARIABLE. The sed EXPRESSION selects the figures in its output. The output must show that the
# test ran, because "go test" also passes if no test has the name.
on_cluster() {
  local log=$logs/${1// /-}.log
  if (cd test/e2e && env "$4=$3s" go test "$link" -tags e2e -count=1 -timeout $(($3 + 1200))s -v -run "^$2\$" .) >"$log" 2>&1 &&
    grep -q "^--- PASS: $2 " "$log"; then
    row "$1" ok "$(sed -n "s/.*go:[0-9]*: $5/\1/p" "$log" | paste -sd, | sed 's/,/, /g')"
    return
  fi
  status=1
  row "$1" FAILED "see $log"
  tail -n 20 "$log" >&2
}

# many_nodes: leaves the orchestrator alone on a control plane with kwok's nodes.
many_nodes() {
  local log=$logs/orchestrator.log writes
  bin/bench --agent orchestrator --nodes 10 --rest "${idle}s" 2>"$log" | tee "$logs/orchestrator.txt"
  writes=$(grep ': writes at rest' "$logs/orchestrator.txt")
  if grep -q ' ok ' <<<"$writes"; then
    row "orchestrator at rest" ok "no writes in $idle s, Leases aside"
    return
  fi
  status=1
  row "orchestrator at rest" FAILED "${writes:-see $log}"
  tail -n 20 "$log" >&2
}

# probes: probes the exporter while three neighbours send pipelined requests for metrics.
probes() {
  local log=$logs/probes.log
  if (cd agents/dcgm-exporter && OUTRIGGER_LOAD=${load}s go test "$link" -count=1 -timeout $((load + 900))s -v -run '^TestProbesUnderLoad$' .) >"$log" 2>&1 &&
    grep -q "^--- PASS: TestProbesUnderLoad " "$log"; then
    row "probes under load" ok "$(sed -n 's/.*go:[0-9]*: \([0-9]* probes .*\)/\1/p' "$log")"
    return
  fi
  status=1
  row "probes under load" FAILED "see $log"
  tail -n 20 "$log" >&2
}

# outages: makes every NVML call of the agents fail for a while, with each error code.
outages() {
  local log=$logs/outages.log
  if (cd test/e2e && OUTRIGGER_OUTAGES=all go test "$link" -tags e2e -count=1 -timeout 45m -v ./outages) >"$log" 2>&1; then
    row "agents whose NVML fails" ok "$(sed -n 's/.*go:[0-9]*: \([0-9]* agents in .*\)/\1/p' "$log")"
    return
  fi
  status=1
  row "agents whose NVML fails" FAILED "see $log"
  tail -n 20 "$log" >&2
}

# identity: runs 10,000 random sequences of changes of a node's GPUs, in which the names of devices must
# stay with the devices.
identity() {
  local log=$logs/identity.log test=TestNamesStayWithTheirDevices
  if (cd agents/device-plugin && OUTRIGGER_SEQUENCES=10000 OUTRIGGER_SEED=${OUTRIGGER_SEED:-$(date +%s)} go test "$link" -count=1 -timeout 60m -v -run "^$test\$" ./internal/prepare) >"$log" 2>&1 &&
    grep -q "^--- PASS: $test " "$log"; then
    row "names of devices" ok "10000 sequences, $(sed -n 's/.*go:[0-9]*: \(seed [0-9]*\)$/\1/p' "$log")"
    return
  fi
  status=1
  row "names of devices" FAILED "see $log"
  tail -n 20 "$log" >&2
}

cd "$root" || exit 1
identity
outages
work device-plugin
work feature-discovery
work dcgm-exporter
probes
on_cluster "feature-discovery at rest" TestNothingIsWrittenWhenNothingChanges "$idle" OUTRIGGER_IDLE '\(.* asked [0-9]* times in .*\)'
many_nodes
on_cluster "agents in chaos" TestChaos "$chaos" OUTRIGGER_CHAOS '\([0-9]* faults of .*\)'
echo
cat "$table"
exit $status
