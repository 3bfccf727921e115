#!/usr/bin/env bash
# test-events.sh [-tags TAGS] [MODULE…] [-test.run=PATTERN PACKAGE]: prints the events of "go test
# -json" of the modules. It fails if a test fails. With a pattern, which gotestsum appends, it runs
# only these tests of one package.
#
# Tests on clusters and in virtual machines run one after another, because each uses the whole
# machine and mostly waits. All other tests run at the same time, one module after another, with a
# lower priority, so that they do not delay the first group. Packages that start goroutines are
# tested with the race detector. It makes a process three times slower, so all other packages are
# compiled in the same way as the shipped programs, and their code is compiled only once.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
# With -trimpath, another checkout finds these packages in Go's cache. GOGC applies to the compiler
# (see compile.env), but not to the tests. "make check" runs go vet, which would read all compiled
# packages again here.
export GOGC=400
args=(-count=1 -vet=off -trimpath -exec "env -u GOGC -u GOMEMLIMIT -u GOFLAGS" -timeout "${TEST_TIMEOUT:-60m}" -ldflags=-extldflags=-Wl,-z,lazy)
asked=
if [ "${1:-}" = -tags ]; then
  asked=$2
  shift 2
fi

# run FLAVOR PRIORITY MODULE ARGUMENT…: runs "go test" in the module. FLAVOR is "raced", or
# "shipped", which compiles with the flags of the programs in bin/, so that common packages are
# compiled once.
run() {
  local tags=$asked flags=(-race)
  if [ "$1" = shipped ]; then
    . "$root/tools/compile.env"
    tags=$tags,grpcnotrace,urfave_cli_no_docs${asked:+,$asked} flags=()
  fi
  cd "$root/$3" || return
  nice -n "$2" go test -json -tags "$tags" "${flags[@]}" "${args[@]}" "${@:4}"
}

# raced MODULE: prints the packages of a module that start goroutines in code or tests: directly,
# for the requests of a server, after a time, or for parallel tests. It skips packages whose test
# binary is also the tested program, because they test whole programs.
raced() {
  case $1 in charts | test/*) return ;; esac
  comm -23 <(folders "$1" '^\s*(defer )?go (func\b|[A-Za-z_.]+\()|\.Go\(|AfterFunc\(|httptest\.New|\.Serve\(|t\.Parallel\(' '*.go') <(folders "$1" 'agenttest\.Main\(' '*_test.go')
}

# folders MODULE PATTERN FILES: prints the packages in which a file of this name pattern matches
# PATTERN.
folders() {
  grep -rlE --include="$3" "$2" "$root/$1" | xargs -r dirname | sort -u | sed "s|^$root/|outrigger.dev/|"
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

[[ " ${modules[*]} " == *" test/e2e "* ]] && computes=yes || computes=
# Packages of test/e2e that use the processor, and no cluster.
computing=(./newagent ./admission ./schemas ./tools)

# Each line is a process group, which ends with this script.
set -m
events=$(mktemp) pids=()
trap 'kill -- "${pids[@]/#/-}" 2>/dev/null; rm -f "$events"' EXIT

# line COMMAND…: runs a command that appends its events to the common file. Go writes each event
# with one call, and the kernel does not mix such writes. With a pipe, or with a file per line,
# events would be mixed, because a reader may read part of an event.
line() {
  "$@" >>"$events" &
  pids+=($!)
}

# on_clusters: runs the packages that use the whole machine, one after the other.
on_clusters() {
  local module list packages status=0
  for module in "${modules[@]}"; do
    case $module in
    test/cluster) continue ;;
    test/e2e)
      list=$(packages "$module") || { status=1; continue; }
      mapfile -t packages < <(grep -vxF "$(printf '%s\n' "${computing[@]/#./outrigger.dev/test/e2e}")" <<<"$list") ;;
    test/*) packages=(./...) ;;
    *) continue ;;
    esac
    [ ${#packages[@]} -eq 0 ] || (run shipped 0 "$module" -p 1 "${packages[@]}") || status=1
  done
  return $status
}

# beside: runs the tests that do not use a cluster.
beside() {
  local module all list flavor packages status=0
  for module in "${modules[@]}"; do
    case $module in test/*) continue ;; esac
    all=$(packages "$module") || { status=1; continue; }
    list=$(grep -xF "$(raced "$module")" <<<"$all")
    for flavor in raced shipped; do
      [ $flavor = raced ] || list=$(grep -vxF "$list" <<<"$all")
      mapfile -t packages < <(grep . <<<"$list")
      [ ${#packages[@]} -eq 0 ] || (run $flavor 10 "$module" "${packages[@]}") || status=1
    done
  done
  [ -z "$computes" ] || (run shipped 10 test/e2e "${computing[@]}") || status=1
  return $status
}

sleep infinity &
end=$!
# If the reader of the events has ended, stop the script.
{ tail -n +1 -f --pid=$end "$events"; kill -0 $end && kill $$; } 2>/dev/null &
shown=$!
pids=($end $shown)
# test/cluster compares the machine before and after a cluster, so it runs alone: mounts and
# processes of other tests would disturb it.
if [[ " ${modules[*]} " == *" test/cluster "* ]]; then
  line run shipped 0 test/cluster -p 1 ./...
  wait $!
fi
line on_clusters
line beside
status=0
for pid in "${pids[@]:2}"; do wait "$pid" || status=1; done
{ kill $end && wait $end; } 2>/dev/null
wait $shown
exit $status
