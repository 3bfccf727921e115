#!/usr/bin/env bash
# nfpm.sh ARCH…: writes the .deb and .rpm packages of the container toolkit for these
# architectures (amd64, arm64) into out/packages. The version is that of VERSION.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${VERSION:?nfpm.sh: set VERSION, as "make packages" does}"
source=agents/container-toolkit
# The same input makes the same bytes.
export VERSION SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}
own=${CC:-gcc}

# compiler ARCH: prints the C compiler for the one program that links C.
compiler() {
  case $1 in
  "$(go env GOHOSTARCH)") echo "$own" ;;
  amd64) echo x86_64-linux-gnu-gcc ;;
  arm64) echo aarch64-linux-gnu-gcc ;;
  *) echo "nfpm.sh: no packages are made for the architecture $1: use amd64 or arm64" >&2; return 2 ;;
  esac
}

# All that is missing shows before the packages of an earlier run go.
for ARCH in "$@"; do
  CC=$(compiler "$ARCH")
  command -v "$CC" >/dev/null || {
    echo "nfpm.sh: $CC is missing: apt-get install gcc-${CC%-gcc}, or make packages ARCHS=$(go env GOHOSTARCH)" >&2
    exit 1
  }
done
mkdir -p out/packages
rm -f out/packages/*.deb out/packages/*.rpm

for ARCH in "$@"; do
  CC=$(compiler "$ARCH")
  BIN=$PWD/out/packages/build/$ARCH
  export ARCH CC BIN
  mkdir -p "$BIN"
  GOARCH=$ARCH tools/build.sh "$source/tools/..." "$source/toolkit-gpus"
  # The text does not depend on the architecture; this machine may not run $ARCH.
  bin/nvidia-ctk config create-default --output "$BIN/config.toml"
  for package in "$source"/packaging/*.yaml; do
    for format in deb rpm; do
      bin/nfpm package --config "$package" --packager "$format" --target out/packages/
    done
  done
done
ls -l out/packages/*.deb out/packages/*.rpm
