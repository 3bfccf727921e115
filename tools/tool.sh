#!/usr/bin/env bash
# tool.sh NAME…: builds tools that tools/go.mod pins into bin/.
set -euo pipefail
cd "$(dirname "$0")"
export GOWORK=off CGO_ENABLED=0
for name in "$@"; do
  path=$(go list tool | grep "/$name\$") || {
    echo "outrigger: tools/go.mod pins no tool named $name" >&2
    exit 1
  }
  go build -trimpath -buildvcs=false -ldflags "-s -w" -o "../bin/$name" "$path"
  echo "bin/$name"
done
