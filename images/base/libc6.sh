#!/usr/bin/env bash
# libc6.sh FOLDER ARCH…: downloads the libc6 package of each architecture (amd64, arm64), in the
# version that is installed on this machine, and unpacks it into FOLDER/ARCH, unless it is there.
# It uses APT's sources and keys of this machine, and does not change the machine's package
# database. It skips the machine's own architecture, for which rootfs.sh uses the installed package.
set -euo pipefail
folder=${1:?usage: libc6.sh FOLDER ARCH…}
shift
die() { echo "libc6.sh: $*" >&2; exit 1; }
command -v dpkg-query >/dev/null || die "dpkg is missing: run this on Debian or Ubuntu"
read -r version own < <(dpkg-query -W -f '${Version} ${Architecture}\n' libc6)
mkdir -p "$folder"
# The work folder is in the same file system, so that FOLDER/ARCH appears complete by a rename.
work=$(mktemp -d -p "$(cd "$folder" && pwd)" .new-XXXXXX)
trap 'rm -rf "$work"' EXIT

# private ARCH ARG…: runs apt-get with separate lists and a separate cache.
private() {
  apt-get -qq -o APT::Architecture="$1" -o APT::Architectures="$1" -o APT::Sandbox::User="$(id -un)" \
    -o Dir::State="$work/state" -o Dir::State::status=/dev/null -o Dir::Cache="$work/cache" "${@:2}"
}

# get ARCH: unpacks the package into FOLDER/ARCH.
get() {
  [ "$(sed -n 's/^Version: //p' "$folder/$1/DEBIAN/control" 2>/dev/null)" != "$version" ] || return 0
  mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
  echo "get libc6 $version for $1"
  private "$1" update
  (cd "$work" && private "$1" download "libc6=$version") ||
    die "APT's sources have no libc6 $version for $1, and both architectures need the same one: upgrade this machine (apt-get update && apt-get install libc6), or add a source that has $1; if this machine is offline, connect it"
  dpkg-deb --raw-extract "$work"/libc6_*_"$1".deb "$work/$1"
  rm -rf "${folder:?}/$1"
  mv "$work/$1" "$folder/$1"
}

for arch in "$@"; do
  case $arch in
  "$own") ;;
  amd64 | arm64) get "$arch" ;;
  *) die "no image is made for the architecture $arch: use amd64 or arm64" ;;
  esac
done
