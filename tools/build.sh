#!/usr/bin/env bash
# build.sh [FOLDER | FOLDER/…]: builds commands into bin/, each named as its folder:
# the one in FOLDER, or with "/..." all in FOLDER and below it; by default all of the
# workspace. Commands in an internal folder serve the build itself and stay out.
# BIN is another folder than bin/, for what is built for another GOARCH.
# Modules build alone (GOWORK=off), with the versions that they ship with.
# A command that links C outside the standard library is built with cgo, every
# other one is static.
# While no source, flag or compiler has changed, it builds nothing (stamp.sh): Go takes
# half a second for each command to find that out.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD bin=${BIN:-$PWD/bin}
. tools/compile.env
. tools/stamp.sh
[ $# -gt 0 ] || mapfile -t all < <(tools/modules.sh)
[ $# -gt 0 ] || set -- "${all[@]/%//...}"

# inputs FOLDER…: prints all that decides what is built of these folders. A module of the
# workspace may use each other one.
inputs() {
  local modules
  mapfile -t modules < <(tools/modules.sh)
  printf '%s\n' "${VERSION:-dev}" "$@"
  go version
  "${CC:-gcc}" --version 2>/dev/null | head -n 1
  env | grep -E '^(CC|CGO_[A-Z]+|GO(OS|ARCH|AMD64|ARM64|FLAGS|EXPERIMENT|TOOLCHAIN))=' | sort
  contents tools/build.sh tools/stamp.sh tools/compile.env "${modules[@]}"
}

# build PACKAGE: builds the command of the current module.
build() {
  local was='' time name=${1##*/} linked cgo=0 flags="-s -w -X outrigger.dev/pkg/version.stamp=${VERSION:-dev}"
  # What no one asks of these programs costs memory on every node: traces of
  # gRPC as web pages, documentation as man pages, and HTTP/2 where there is no
  # API server to talk to (its pings show that the server answers).
  local tags=$tags,grpcnotrace,urfave_cli_no_docs
  linked=$(CGO_ENABLED=1 go list -tags "$tags" -deps -f '{{if not .Standard}}{{.ImportPath}} {{if .CgoFiles}}cgo{{end}}{{end}}' "$1")
  grep -qE '^(k8s.io/client-go/|outrigger.dev/pkg/kube )' <<<"$linked" || tags=$tags,nethttpomithttp2
  # Symbols of NVML are bound at the first call, not at start: a library
  # that lacks a newer one must not stop the process.
  ! grep -q ' cgo$' <<<"$linked" || cgo=1 flags="$flags -extldflags=-Wl,-z,lazy"
  # Go sets the time of a program that is up to date, too. It keeps its own, because other stamps have it.
  [ ! -e "$bin/$name" ] || { was=$(sha256sum <"$bin/$name"); time=$(stat -c %y "$bin/$name"); }
  CGO_ENABLED=$cgo go build -tags "$tags" -ldflags "$flags" -o "$bin/$name" "$1"
  [ "$(sha256sum <"$bin/$name")" != "$was" ] || touch -d "$time" "$bin/$name"
  echo "${bin#"$root/"}/$name"
}

now=$(inputs "$@" | digest)
stamp=$root/out/stamps/$(printf "%s\n" "$bin" "$@" | digest)
if fresh "$stamp" "$now"; then
  echo "${bin#"$root/"}: up to date"
  exit
fi
programs=()
for pattern in "$@"; do
  folder=${pattern%/...}
  [ -d "$root/$folder" ] || { echo "build.sh: no folder $folder" >&2; exit 2; }
  cd "$root/$folder"
  commands=$(go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ".${pattern#"$folder"}" | sed '/^$/d; /\/internal\//d')
  for command in $commands; do
    build "$command"
    programs+=("$bin/${command##*/}")
  done
done
[ ${#programs[@]} -eq 0 ] || stamp "$stamp" "$now" "${programs[@]}"
