#!/usr/bin/env bash
# kernel.sh FOLDER: downloads Debian's kernel for the guest, with its modules and headers, unless
# FOLDER has them. FOLDER/root has the files at their paths on a host. FOLDER/vmlinuz is a link to
# the kernel, and FOLDER/modules is a link to its modules. It does not install the packages.
set -euo pipefail
folder=${1:?usage: kernel.sh FOLDER}
[ ! -d "$folder/root" ] || exit 0
[ "$(uname -m)" = x86_64 ] || { echo "kernel.sh: guests are x86-64, and this machine is $(uname -m): their tests are skipped"; exit 0; }
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d -p "$folder")
trap 'rm -rf "$work"' EXIT
cd "$work"
# depends PATTERN PACKAGE…: prints the dependencies of these packages whose name matches PATTERN.
depends() {
  local pattern=$1
  shift
  apt-cache depends "$@" 2>/dev/null | sed -n "s/^ *Depends: \($pattern\)$/\1/p"
}
# image META…: prints the kernel package of the first of these packages that has one.
image() {
  local meta found
  for meta in "$@"; do
    found=$(depends 'linux-image-[0-9][^ ]*' "$meta" | head -n 1)
    [ -z "$found" ] || { echo "$found"; return; }
  done
}

# Debian's and Ubuntu's names for the smallest kernel.
metas="linux-image-cloud-amd64 linux-image-virtual"
image=$(image $metas)
[ -n "$image" ] || { apt-get update -qq && image=$(image $metas); }
[ -n "$image" ] || { echo "kernel.sh: apt knows none of $metas: configure a repository that has one" >&2; exit 1; }
release=${image#linux-image-}
# The headers, and on Ubuntu the modules, are split into several packages.
parts=$(depends 'linux-\(headers\|kbuild\|modules\)-[0-9][^ ]*' "$image" "linux-headers-$release" | sort -u)
apt-get -o APT::Sandbox::User=root download -qq "$image" "linux-headers-$release" $parts
for package in ./*.deb; do dpkg -x "$package" root; done
# All files must be there: the packages can have different versions, and do not fit together then.
[ -s "root/boot/vmlinuz-$release" ] && [ -s "root/usr/src/linux-headers-$release/.config" ] && [ -d "root/lib/modules/$release/kernel" ] ||
  { echo "kernel.sh: the packages $image linux-headers-$release $parts lack the kernel, its modules or its headers" >&2; exit 1; }
rm -rf "$folder/modules" "$folder/vmlinuz"
ln -s "root/boot/vmlinuz-$release" "$folder/vmlinuz"
ln -s "root/lib/modules/$release/kernel" "$folder/modules"
mv root "$folder/root"
