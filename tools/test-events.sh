#!/usr/bin/env bash
# test-events.sh [-tags TAGS] [MODULE…] [-test.run=PATTERN PACKAGE]: prints the events of
# "go test -json" of the modules. It fails when one of them fails. With a pattern, which
# gotestsum appends, it runs these tests of one package alone.
#
# The tests on clusters run one after the other, because each uses the whole machine, and mostly wait.
# All other tests run at the same time as them, two packages at a time, and beside all of them the
# package whose hundreds of agents mostly wait. Tests that compute have a lower priority, so that they
# do not delay the clusters. Packages whose code starts or synchronizes goroutines are tested with the
# race detector, which makes a process three times slower. All others are compiled like the programs
# in bin/, so that shared packages are compiled once.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
# With -trimpath, another checkout finds these packages in Go's cache. The compiler collects
# garbage less often (compile.env has the reason). "make check" already runs go vet, which would
# read all packages again.
export GOGC=400
args=(-count=1 -vet=off -trimpath -timeout "${TEST_TIMEOUT:-60m}" -ldflags=-extldflags=-Wl,-z,lazy)
asked=
if [ "${1:-}" = -tags ]; then
  asked=$2
  shift 2
fi

# run FLAVOR PRIORITY MODULE ARGUMENT…: runs "go test" in the module. FLAVOR is "raced" for the race
# detector, or "shipped" for the build flags of the programs in bin/. If $alone is set, it is a command that
# starts one test program at a time.
run() {
  local tags=$asked flags=(-race)
  if [ "$1" = shipped ]; then
    . "$root/tools/compile.env"
    tags=$tags,grpcnotrace,urfave_cli_no_docs${asked:+,$asked} flags=()
  fi
  # Tests that compute render charts, with much garbage and little memory. The programs of other tests
  # collect garbage as on a node.
  local unset="-u GOMEMLIMIT -u GOFLAGS -u GOGC"
  case $2:$3 in *:charts | *:orchestrator | 10:test/e2e) unset=${unset% -u GOGC} ;; esac
  cd "$root/$3" || return
  nice -n "$2" go test -json -tags "$tags" "${flags[@]}" -exec "${alone:+$alone }env $unset" "${args[@]}" "${@:4}"
}

# raced MODULE: prints the packages of a module whose code starts goroutines (directly, for the
# requests of a server, or after a delay) or synchronizes them. It omits packages whose tests run
# whole programs, because their test binary is also the program.
raced() {
  case $1 in charts | test/*) return ;; esac
  comm -23 <(folders "$1" '^\s*(defer )?go (func\b|[A-Za-z_.]+\()|\.Go\(|AfterFunc\(|\.Serve\(|^\s"sync(/atomic)?"' --exclude='*_test.go') \
    <(folders "$1" 'agenttest\.Main\(' --include='*_test.go')
}

# folders MODULE PATTERN FILES: prints the packages that have the pattern in a file that the grep
# option FILES selects.
folders() {
  grep -rlE --include='*.go' "$3" "$2" "$root/$1" | xargs -r dirname | sort -u | sed "s|^$root/|outrigger.dev/|"
}

# packages MODULE: prints the packages of a module.
packages() {
  cd "$root/$1" && go list -tags "$asked" ./...
}

if [[ "${*: -2:1}" == -test.run=* ]]; then
  package=${*: -1} module=${package#outrigger.dev/} flavor=shipped
  while [ ! -e "$module/go.mod" ]; do module=${module%/*}; done
  ! raced "$module" | grep -qxF "$package" || flavor=raced
  run $flavor 0 "$module" "${*: -2:1}" "$package"
  exit
fi
modules=("$@")
[ $# -gt 0 ] || mapfile -t modules < <(tools/modules.sh)

# The packages of test/e2e that use no cluster. The packages in "starting" start engines, servers or
# virtual machines, and those in "waiting" mostly wait.
computing=(./newagent ./admission ./schemas ./tools)
starting=(./dashboards ./engines ./nvidia ./stack)
waiting=(./outages)
# The module whose tests only compute: they change nothing on the machine.
pure=charts

# Each line of work is a group of processes, which ends with this script.
set -m
events=$(mktemp) pids=()
trap 'kill -- "${pids[@]/#/-}" 2>/dev/null; rm -f "$events" "$events".*' EXIT

# line COMMAND…: runs a command that appends its events to the file of all commands. Go writes each
# event with one call, so the kernel does not mix events of several commands. Separate files or a
# pipe could mix them, because a reader could see a part of an event.
line() {
  "$@" >>"$events" &
  pids+=($!)
}

# has MODULE: reports whether the module is tested.
has() { [[ " ${modules[*]} " == *" $1 "* ]]; }

# on_clusters: runs the packages that use a cluster or the whole machine, one after the other. Go links the
# next package meanwhile, which takes more than ten seconds. Its tests wait for the lock.
on_clusters() {
  has test/e2e || return 0
  local list packages alone="flock --close $events.lock" others=("${computing[@]}" "${starting[@]}" "${waiting[@]}")
  list=$(packages test/e2e) || return
  mapfile -t packages < <(grep -vxF "$(printf '%s\n' "${others[@]/#./outrigger.dev/test/e2e}")" <<<"$list")
  run shipped 0 test/e2e -p 2 "${packages[@]}"
}

# beside: runs all other tests. Two runs of Go test one package at a time each: if one run tested two
# packages, the second processor would wait for the longest package of each module.
beside() {
  set +m # the runs end with this group
  local module all list flavor packages
  for module in "${modules[@]}"; do
    case $module in test/* | "$pure") continue ;; esac
    all=$(packages "$module") || { failed; continue; }
    list=$(grep -xF "$(raced "$module")" <<<"$all")
    for flavor in raced shipped; do
      [ $flavor = raced ] || list=$(grep -vxF "$list" <<<"$all")
      mapfile -t packages < <(grep . <<<"$list")
      [ ${#packages[@]} -eq 0 ] || one_of_two $flavor 10 "$module" "${packages[@]}"
    done
  done
  for module in "${modules[@]}"; do
    case $module in test/cluster | test/e2e) ;; test/*) one_of_two shipped 0 "$module" ./... ;; esac
  done
  ! has test/e2e || one_of_two shipped 10 test/e2e "${computing[@]}"
  ! has test/e2e || one_of_two shipped 0 test/e2e "${starting[@]}"
  wait
  [ ! -e "$events.failed" ]
}

# one_of_two FLAVOR PRIORITY MODULE ARGUMENT…: starts a run when less than two are running.
one_of_two() {
  while [ "$(jobs -rp | wc -l)" -gt 1 ]; do wait -n; done
  (run "$1" "$2" "$3" -p 1 "${@:4}") || failed &
}

# failed: notes that a run of beside has failed.
failed() { : >"$events.failed"; }

sleep infinity &
end=$!
# If the reader of the events has ended, this script ends with all its processes.
{ tail -n +1 -f --pid=$end "$events"; kill -0 $end && kill $$; } 2>/dev/null &
shown=$!
pids=($end $shown)
! has $pure || line run shipped 10 $pure -p 1 ./...
# The tests of this module compare the machine before and after a cluster, so mounts and processes of
# other tests would make them fail.
if has test/cluster; then
  line run shipped 0 test/cluster -p 1 ./...
  wait $!
fi
line on_clusters
line beside
! has test/e2e || line run shipped 0 test/e2e "${waiting[@]}"
status=0
for pid in "${pids[@]:2}"; do wait "$pid" || status=1; done
{ kill $end && wait $end; } 2>/dev/null
wait $shown
exit $status
