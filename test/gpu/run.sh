#!/usr/bin/env bash
# run.sh runs the built programs on a real GPU and compares their output with
# nvidia-smi. It needs only bash, the programs and NVIDIA's driver, and no network, Go
# or Kubernetes, so you can copy it with bin/ to any machine:
#
#   test/gpu/run.sh            with the programs in bin/ of this repository
#   BIN=DIR test/gpu/run.sh    with the programs in DIR
#
# For a driver at an unusual place, set the agents' variables (NVIDIA_DRIVER_ROOT and
# others). Each check prints PASS, FAIL or SKIP. The exit code is 0 if none failed.
# Without a GPU, run.sh reports that and exits with 0.
set -uo pipefail
export LC_ALL=C
bin=${BIN:-$(cd "$(dirname "$0")/../.." && pwd)/bin}
# nvidia-smi lists all GPUs in the order of the PCI bus. Make CUDA do the same.
unset CUDA_VISIBLE_DEVICES
export CUDA_DEVICE_ORDER=PCI_BUS_ID

passed=0 failed=0 skipped=0
pass() { passed=$((passed + 1)) && echo "PASS $1"; }
skip() { skipped=$((skipped + 1)) && echo "SKIP $1: $2"; }
fail() {
  failed=$((failed + 1))
  echo "FAIL $1"
  [ -z "${2:-}" ] || printf '%s\n' "$2" | sed 's/^/     /'
}
# equal WHAT WANT GOT
equal() {
  if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "$(printf 'want:\n%s\ngot:\n%s' "$2" "$3")"; fi
}

has_gpu() {
  local vendor
  for vendor in /sys/bus/pci/devices/*/vendor; do
    [ "$(cat "$vendor" 2>/dev/null)" = 0x10de ] || continue
    case $(cat "${vendor%vendor}class" 2>/dev/null) in 0x03*) return 0 ;; esac
  done
  # A container may have the device nodes without the bus.
  compgen -G '/dev/nvidia[0-9]*' >/dev/null
}
if ! has_gpu; then
  echo "skipped: no NVIDIA GPU"
  exit 0
fi
for program in device-plugin fake-kubelet feature-discovery vectoradd; do
  [ -x "$bin/$program" ] && continue
  echo "run.sh: $bin/$program is missing: run make build, or set BIN to its folder" >&2
  exit 2
done
if ! list=$(nvidia-smi -L 2>&1); then
  echo "run.sh: nvidia-smi -L fails on this machine with an NVIDIA GPU: load the driver: $list" >&2
  exit 2
fi
gpus=$(grep '^GPU ' <<<"$list")
count=$(grep -c . <<<"$gpus")
echo "$gpus"

work=$(mktemp -d)
plugin='' kubelet=''
cleanup() {
  [ -z "$plugin" ] || kill "$plugin" 2>/dev/null
  [ -z "$kubelet" ] || kill "$kubelet" 2>/dev/null
  wait
  rm -rf "$work"
}
trap cleanup EXIT

## The snapshot matches nvidia-smi.

# smi FIELD: one line for each GPU, or nothing if nvidia-smi does not support FIELD.
smi() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | sed 's/ MiB$//'; }
# get INDENT KEY: the values of a key at that depth of the snapshot.
get() { sed -n "s/^ \{$1\}\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$work/snapshot.json"; }
# compare WHAT FIELD GOT
compare() {
  local want
  want=$(smi "$2")
  case $want in
  '' | *'not a valid field'* | *'N/A'*) skip "snapshot: $1" "nvidia-smi does not report $2" ;;
  *) equal "snapshot: $1" "$want" "$3" ;;
  esac
}

if timeout 60 "$bin/device-plugin" snapshot >"$work/snapshot.json" 2>"$work/snapshot.err"; then
  pass "snapshot: exit code 0"
else
  fail "snapshot: exit code $?" "$(cat "$work/snapshot.err")"
fi
equal "snapshot: UUIDs" "$(sed 's/.*(UUID: \(.*\))$/\1/' <<<"$gpus")" "$(get 6 uuid)"
equal "snapshot: names" "$(sed 's/^GPU [0-9]*: \(.*\) (UUID: .*$/\1/' <<<"$gpus")" "$(get 6 name)"
compare "driver version" driver_version "$(for ((i = 0; i < count; i++)); do get 4 version; done)"
bus=$(smi pci.bus_id | tr 'A-F' 'a-f' | sed 's/^0000//')
if [ -n "$bus" ]; then
  equal "snapshot: PCI bus ids" "$bus" "$(get 8 busId)"
else
  skip "snapshot: PCI bus ids" "nvidia-smi does not report pci.bus_id"
fi
compare "compute capability" compute_cap "$(paste -d . <(get 8 major) <(get 8 minor))"
compare "memory in MiB" memory.total "$(get 6 memoryBytes | while read -r bytes; do echo $((bytes / 1048576)); done)"
cuda=$(nvidia-smi 2>/dev/null | sed -n 's/.*CUDA Version: *\([0-9.]*\).*/\1/p')
if [ -n "$cuda" ]; then
  equal "snapshot: CUDA version" "$cuda" "$(get 6 major | head -n 1).$(get 6 minor | head -n 1)"
else
  skip "snapshot: CUDA version" "nvidia-smi does not report it"
fi
equal "snapshot: no GPU has a fault" "" "$(grep -A 3 '"fault"' "$work/snapshot.json")"

## The labels match nvidia-smi, if all GPUs are of one model.

if timeout 60 "$bin/feature-discovery" --oneshot --publish=stdout --log-level=error >"$work/labels" 2>"$work/labels.err"; then
  pass "labels: exit code 0"
else
  fail "labels: exit code $?" "$(cat "$work/labels.err")"
fi
# label NAME: its value, or nothing if there is no such label.
label() { sed -n "s#^nvidia.com/$1=##p" "$work/labels"; }
# every WHAT FIELD GOT: compare with nvidia-smi, whose value is the same for all GPUs.
every() {
  local want
  want=$(smi "$2" | sort -u)
  case $want in
  '' | *'not a valid field'* | *'N/A'*) skip "labels: $1" "nvidia-smi does not report $2" ;;
  *) equal "labels: $1" "$want" "$3" ;;
  esac
}
bad=$(grep -vE '^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?=([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$' "$work/labels")
equal "labels: all are valid in Kubernetes" "" "$bad"
if [ "$(smi name | sort -u | wc -l)" -eq 1 ]; then
  equal "labels: gpu.count" "$count" "$(label gpu.count)"
  equal "labels: gpu.product" "$(smi name | head -n 1 | tr ' ' -)" "$(label gpu.product)"
  every "memory in MiB" memory.total "$(label gpu.memory)"
  every "compute capability" compute_cap "$(label gpu.compute.major).$(label gpu.compute.minor)"
else
  skip "labels: one model" "there are several models"
fi
every "driver version" driver_version "$(label cuda.driver-version.full)"
[ -z "$cuda" ] || equal "labels: CUDA version" "$cuda" "$(label cuda.runtime-version.full)"

## The plugin advertises each GPU to a kubelet, and again after the kubelet restarts.

# wait_for SECONDS COMMAND…: wait until the command succeeds.
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.05
  done
}
ended() { ! kill -0 "$1" 2>/dev/null; }
done_or_ended() { grep -q '^registered-again' "$work/kubelet.out" || ended "$kubelet" || ended "$plugin"; }

"$bin/fake-kubelet" --dir "$work/kubelet" --devices "$count" >"$work/kubelet.out" 2>"$work/kubelet.err" &
kubelet=$!
wait_for 10 test -S "$work/kubelet/kubelet.sock" || fail "fake kubelet: started" "$(cat "$work/kubelet.err")"
mkdir "$work/cdi" "$work/run"
"$bin/device-plugin" --kubelet-socket "$work/kubelet/kubelet.sock" --cdi-root "$work/cdi" --run-root "$work/run" \
  --device-list-strategy cdi-cri,envvar --listen '' >"$work/plugin.log" 2>&1 &
plugin=$!
wait_for 90 done_or_ended
uuids=$(sed 's/.*(UUID: \(.*\))$/\1/' <<<"$gpus" | sort)
log=$(tail -n 15 "$work/plugin.log" "$work/kubelet.err")

if grep -qx 'registered nvidia.com/gpu' "$work/kubelet.out"; then pass "plugin: registered"; else fail "plugin: registered" "$log"; fi
equal "plugin: every GPU is listed and healthy" "$(sed 's/$/ Healthy/' <<<"$uuids")" \
  "$(sed -n 's/^device \([^ ]* [^ ]*\) .*/\1/p' "$work/kubelet.out")"
equal "plugin: a container gets its GPU through CDI" \
  "$(sed 's#.*#& k8s.device-plugin.nvidia.com/gpu=&#' <<<"$uuids")" "$(sed -n 's/^allocated \([^ ]*\) cdi=/\1 /p' "$work/kubelet.out")"
equal "plugin: a container gets its GPU through the variable" \
  "$(sed 's#.*#& &#' <<<"$uuids")" "$(sed -n 's/^allocated \([^ ]*\) env=NVIDIA_VISIBLE_DEVICES=/\1 /p' "$work/kubelet.out")"
if grep -qx "registered-again nvidia.com/gpu devices=$count" "$work/kubelet.out"; then
  pass "plugin: registered again after the kubelet's restart"
else
  fail "plugin: registered again after the kubelet's restart" "$log"
fi

## The CDI spec matches the machine.

spec=$work/cdi/k8s.device-plugin.nvidia.com-gpu.json
if [ -s "$spec" ]; then
  pass "cdi: spec written"
  equal "cdi: one device for each GPU" "$uuids" "$(sed -n 's/^ *"name": "\(GPU-[^"]*\)",\{0,1\}$/\1/p' "$spec" | sort)"
  missing=$(sed -n 's/^ *"hostPath": "\([^"]*\)",\{0,1\}$/\1/p' "$spec" | while read -r path; do [ -e "$path" ] || echo "$path"; done)
  equal "cdi: every mounted file exists" "" "$missing"
  missing=$(sed -n 's/^ *"path": "\(\/dev\/[^"]*\)",\{0,1\}$/\1/p' "$spec" | while read -r path; do [ -c "$path" ] || echo "$path"; done)
  equal "cdi: every device node exists" "" "$missing"
  for library in libcuda.so libnvidia-ml.so; do
    if grep -q "/$library\.[0-9.]*\"" "$spec"; then pass "cdi: $library is mounted"; else fail "cdi: $library is mounted"; fi
  done
  # The device node of a GPU has its minor number in the snapshot. The first "minor" in
  # the snapshot is that of the CUDA version.
  equal "cdi: every GPU has its own node" \
    "$(paste -d ' ' <(get 6 uuid) <(get 6 minor | tail -n +2 | sed 's#^#/dev/nvidia#') | sort)" \
    "$(awk -F '"' '$2 == "name" { gpu = $4 } $2 == "path" && gpu ~ /^GPU-/ && $4 ~ /^\/dev\/nvidia[0-9]+$/ { print gpu, $4 }' "$spec" | sort)"
else
  fail "cdi: spec written" "$(ls -A "$work/cdi"; echo "$log")"
fi

kill -TERM "$plugin" 2>/dev/null
if wait_for 3 ended "$plugin"; then pass "plugin: exits on SIGTERM"; else fail "plugin: exits on SIGTERM" "still running after 3 s"; fi
wait "$plugin"
equal "plugin: exit code 0" 0 $?
plugin=''
equal "plugin: leaves no socket" "" "$(find "$work/kubelet" -name 'nvidia*')"

## vectoradd runs on every GPU.

if grep -q '^ *MIG ' <<<"$list"; then
  skip "vectoradd" "with MIG devices, CUDA lists one of them, and nvidia-smi lists all"
else
  equal "vectoradd: --list matches nvidia-smi -L" "$gpus" "$("$bin/vectoradd" --list 2>&1)"
  for ((i = 0; i < count; i++)); do
    out=$(timeout 120 "$bin/vectoradd" --device $i 2>&1)
    rc=$?
    if [ $rc -eq 0 ] && grep -qx 'Test PASSED' <<<"$out"; then pass "vectoradd: GPU $i"; else fail "vectoradd: GPU $i, exit code $rc" "$out"; fi
  done
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
