#!/bin/bash
# build.sh OUTDIR [COMPONENT...]: builds the parts of a cluster into OUTDIR.
#
# The components are third-party programs (kubernetes, containerd, runc, cni, nfd, docker, crio,
# kwok), pinned by the go.mod of their folders in components/, and our pause. By default, all are
# built. A component whose inputs are unchanged since its last build is skipped:
# OUTDIR/.COMPONENT.stamp holds the digest of the inputs.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$(mkdir -p "${1:?usage: build.sh OUTDIR [COMPONENT...]}" && cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- kubernetes containerd runc cni nfd docker crio kwok pause

. "$root/tools/compile.env"
export CGO_ENABLED=0

# version MODULE: prints the version that the go.mod of the current folder selects.
version() { go list -m -f '{{.Version}}' "$1"; }

# folder MODULE: prints the folder of the module in the module cache.
folder() {
  local dir
  dir=$(go list -m -f '{{.Dir}}' "$1")
  [ -n "$dir" ] || { echo "build.sh: $1 is not in the module cache; run: tools/download.sh ${PWD#"$root/"}" >&2; return 1; }
  echo "$dir"
}

build_kubernetes() {
  local v minor pkg=k8s.io/component-base/version
  v=$(version k8s.io/kubernetes)
  minor=${v#v1.}
  go build -tags "$tags" -ldflags "-s -w -X $pkg.gitVersion=$v -X $pkg.gitMajor=1 -X $pkg.gitMinor=${minor%%.*} -X $pkg.gitTreeState=clean -X k8s.io/client-go/pkg/version.gitVersion=$v" \
    -o "$out/" . ./kubectl
}

build_containerd() {
  local module=github.com/containerd/containerd/v2
  go build -tags "$tags,no_btrfs,no_zfs,no_devmapper,no_rdt,no_tracing,nri_no_wasm" -ldflags "-s -w -X $module/version.Version=$(version $module)" \
    -o "$out/" $module/cmd/{containerd,containerd-shim-runc-v2,ctr}
}

build_runc() {
  local module=github.com/opencontainers/runc v
  v=$(version $module)
  CGO_ENABLED=1 go build -tags "$tags,seccomp,urfave_cli_no_docs" -ldflags "-s -w -X main.version=${v#v}" -o "$out/runc" $module
}

build_cni() {
  local plugins=github.com/containernetworking/plugins/plugins
  mkdir -p "$out/cni"
  go build -tags "$tags" -ldflags "-s -w" -o "$out/cni/" $plugins/main/{ptp,loopback} $plugins/ipam/host-local $plugins/meta/portmap
}

# Node Feature Discovery comes with its own manifests. pathPrefix is the path at which they mount
# the host's folders into its pods.
build_nfd() {
  local module=sigs.k8s.io/node-feature-discovery v dir
  v=$(version $module)
  dir=$(folder $module)
  rm -rf "$out/nfd"
  mkdir -p "$out/nfd"
  go build -tags "$tags" -ldflags "-s -w -X $module/pkg/version.version=$v -X $module/pkg/utils/hostpath.pathPrefix=/host-" \
    -o "$out/nfd/" $module/cmd/nfd-{master,worker}
  cp -r --no-preserve=mode "$dir/deployment" kustomization.yaml "$out/nfd/"
}

build_docker() {
  local engine=github.com/moby/moby/v2 cli=github.com/docker/cli v
  v=$(version $engine)
  go build -tags "$tags,no_btrfs,no_zfs,no_devmapper,no_rdt,no_tracing,nri_no_wasm,no_embedded_containerd,exclude_disk_quota,exclude_graphdriver_btrfs,exclude_graphdriver_zfs" \
    -ldflags "-s -w -X $engine/dockerversion.Version=${v#v}" -o "$out/dockerd" $engine/cmd/dockerd
  v=$(version $cli)
  v=${v%+*}
  go build -tags "$tags" -ldflags "-s -w -X $cli/cli/version.Version=${v#v}" -o "$out/docker" $cli/cmd/docker
}

# build_crio: builds CRI-O without the C libraries for signatures and btrfs; copyimg, which copies
# images into the storage of CRI-O; and pinns, a C program that keeps namespaces.
build_crio() {
  local module=github.com/cri-o/cri-o dir
  dir=$(folder $module)
  go build -tags "$tags,containers_image_openpgp,exclude_graphdriver_btrfs" -ldflags "-s -w" -o "$out/" $module/cmd/crio $module/test/copyimg
  "${CC:-gcc}" -std=c99 -Os -static -s -o "$out/pinns" "$dir"/pinns/src/*.c
}

# kwok needs stages that define the behavior of nodes and pods. The stages for nodes are from its
# module, and the stages for pods are ours.
build_kwok() {
  local module=sigs.k8s.io/kwok dir stage
  dir=$(folder $module)
  go build -tags "$tags" -ldflags "-s -w" -o "$out/kwok" $module/cmd/kwok
  for stage in "$dir"/kustomize/stage/node/{fast/node-initialize,heartbeat-with-lease/node-heartbeat-with-lease}.yaml pods.yaml; do
    echo ---
    cat "$stage"
  done >"$out/kwok-stages.yaml"
}

build_pause() {
  go build -tags "$tags" -ldflags "-s -w" -o "$out/pause" ./internal/pause
}

# outputs COMPONENT: prints the files in OUTDIR that its build writes.
outputs() {
  case $1 in
  containerd) echo containerd containerd-shim-runc-v2 ctr ;;
  crio) echo crio copyimg pinns ;;
  cni) echo cni/ptp cni/loopback cni/host-local cni/portmap ;;
  docker) echo dockerd docker ;;
  kubernetes) echo kubernetes kubectl ;;
  kwok) echo kwok kwok-stages.yaml ;;
  nfd) echo nfd/nfd-master nfd/nfd-worker nfd/deployment nfd/kustomization.yaml ;;
  *) echo "$1" ;;
  esac
}

# inputs COMPONENT: prints all inputs of its build.
inputs() {
  go version
  go env GOARCH
  cat "$here/build.sh" "$root/tools/compile.env"
  if [ "$1" = pause ]; then cat "$here"/internal/pause/*.go; else
    cat "$here/components/$1"/go.{mod,sum}
    find "$here/components/$1" \( -name '*.go' -o -name '*.yaml' \) -exec cat {} +
  fi
}

# built COMPONENT: succeeds if all its outputs exist.
built() { for o in $(outputs "$1"); do [ -e "$out/$o" ] || return 1; done; }

for component in "$@"; do
  declare -F "build_$component" >/dev/null || { echo "unknown component $component" >&2; exit 2; }
  stamp=$out/.$component.stamp
  digest=$(inputs "$component" | sha256sum)
  if built "$component" && [ "$(cat "$stamp" 2>/dev/null)" = "$digest" ]; then
    echo "$component: up to date"
    continue
  fi
  echo "$component: building"
  rm -f "$stamp"
  begin=$SECONDS
  (cd "$here/components/$component" 2>/dev/null || cd "$here"; "build_$component")
  echo "$digest" >"$stamp"
  echo "$component: built in $((SECONDS - begin)) s"
done
