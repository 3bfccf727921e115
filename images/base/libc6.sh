#!/usr/bin/env bash
# libc6.sh FOLDER ARCH…: gets the libc6 package of each architecture (amd64, arm64) in the
# version of this machine's, and unpacks it into FOLDER/ARCH, unless it is there. It uses
# APT's sources and keys of this machine, and changes nothing in its package database. For
# the machine's own architecture it does nothing: rootfs.sh takes the installed package.
set -euo pipefail
folder=${1:?usage: libc6.sh FOLDER ARCH…}
shift
die() { echo "libc6.sh: $*" >&2; exit 1; }
command -v dpkg-query >/dev/null || die "dpkg is missing: run this on Debian or Ubuntu"
read -r version own < <(dpkg-query -W -f '${Version} ${Architecture}\n' libc6)
mkdir -p "$folder"
# In the same file system, so that what is at FOLDER/ARCH is whole.
work=$(mktemp -d -p "$(cd "$folder" && pwd)" .new-XXXXXX)
trap 'rm -rf "$work"' EXIT

# private ARCH ARG…: runs apt-get with lists and a cache of its own.
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
