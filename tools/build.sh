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
    linked=$(CGO_ENABLED=1 go list -deps -f '{{if not .Standard}}{{.ImportPath}} {{if .CgoFiles}}cgo{{end}}{{end}}' "$command")
    cgo=0 flags="-s -w -X outrigger.dev/pkg/agent.Version=${VERSION:-dev}"
    # What no one asks of these programs costs memory on every node: traces of
    # gRPC as web pages, documentation as man pages, and HTTP/2 where there is no
    # API server to talk to.
    tags=grpcnotrace,urfave_cli_no_docs
    grep -q '^k8s.io/client-go' <<<"$linked" || tags=$tags,nethttpomithttp2
    # Symbols of NVML are bound at the first call, not at start: a library
    # that lacks a newer one must not stop the process.
    ! grep -q ' cgo$' <<<"$linked" || cgo=1 flags="$flags -extldflags=-Wl,-z,lazy"
    CGO_ENABLED=$cgo go build -trimpath -buildvcs=false -tags "$tags" -ldflags "$flags" -o "$root/bin/$name" "$command"
    echo "bin/$name"
  done
done
