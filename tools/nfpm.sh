#!/usr/bin/env bash
# nfpm.sh FOLDER ARCH…: writes the .deb and .rpm packages of the container toolkit for these
# architectures into FOLDER. They contain the programs in out/build. Their version is VERSION.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${VERSION:?nfpm.sh: set VERSION, as "make packages" does}"
to=${1:?usage: nfpm.sh FOLDER ARCH…}
shift
# The same inputs give the same bytes. With "~", a pre-release sorts before its release.
export VERSION=${VERSION/-/\~} SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0} CONFIG=$PWD/out/config.toml
mkdir -p "$to"
rm -f "$to"/*.deb "$to"/*.rpm

bin/nvidia-ctk config create-default --output "$CONFIG"
for ARCH in "$@"; do
  export ARCH BIN=$PWD/out/build/$ARCH
  for package in agents/container-toolkit/packaging/*.yaml; do
    for format in deb rpm; do
      bin/nfpm package --config "$package" --packager "$format" --target "$to/"
    done
  done
done
ls -l "$to"/*.deb "$to"/*.rpm
