#!/usr/bin/env bash
# tool.sh NAME…: builds tools into bin/, at the versions that tools/NAME/go.mod pins.
set -euo pipefail
cd "$(dirname "$0")"
. ./compile.env
export CGO_ENABLED=0
bin=$(cd .. && mkdir -p bin && cd bin && pwd)
for name in "$@"; do
  [ -d "$name" ] || { echo "tool.sh: no folder tools/$name" >&2; exit 2; }
  (cd "$name" && go build -tags "$tags" -ldflags "-s -w" -o "$bin/$name" "$(go list tool)")
  echo "bin/$name"
done
