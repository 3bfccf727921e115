#!/usr/bin/env bash
# build.sh [MODULE…]: builds the commands of the modules into bin/, each named
# as its folder; those below an internal folder serve the build itself and stay
# out. Modules build alone (GOWORK=off), with the versions that they ship with.
# A command that links C outside the standard library is built with cgo, every
# other one is static.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export GOWORK=off
[ $# -gt 0 ] || mapfile -t modules < <(tools/modules.sh)
[ $# -eq 0 ] || modules=("$@")

for module in "${modules[@]}"; do
  cd "$root/$module"
  mapfile -t commands < <(go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./... | sed '/^$/d; /\/internal\//d')
  for command in "${commands[@]}"; do
    name=${command##*/}
    linked=$(CGO_ENABLED=1 go list -deps -f '{{if and .CgoFiles (not .Standard)}}{{.ImportPath}}{{end}}' "$command" | sed '/^$/d' | head -n 1)
    cgo=0 flags="-s -w -X outrigger.dev/pkg/agent.Version=${VERSION:-dev}"
    # Symbols of NVML are bound at the first call, not at start: a library
    # that lacks a newer one must not stop the process.
    [ -z "$linked" ] || cgo=1 flags="$flags -extldflags=-Wl,-z,lazy"
    CGO_ENABLED=$cgo go build -trimpath -buildvcs=false -ldflags "$flags" -o "$root/bin/$name" "$command"
    echo "bin/$name"
  done
done
