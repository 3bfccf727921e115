#!/usr/bin/env bash
# kernel.sh FOLDER: gets Debian's kernel for the guest into FOLDER/vmlinuz, and its
# modules into FOLDER/modules, unless they are there. It does not install the package.
set -euo pipefail
folder=${1:?usage: kernel.sh FOLDER}
[ ! -s "$folder/vmlinuz" ] || exit 0
[ "$(uname -m)" = x86_64 ] || { echo "kernel.sh: guests are x86-64, and this machine is $(uname -m): their tests are skipped"; exit 0; }
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# image META…: prints the package with the kernel on which the first of these depends.
image() {
  local meta found
  for meta in "$@"; do
    found=$(apt-cache depends "$meta" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
    [ -z "$found" ] || { echo "$found"; return; }
  done
}

# Debian's and Ubuntu's names for the smallest kernel.
metas="linux-image-cloud-amd64 linux-image-virtual"
package=$(image $metas)
[ -n "$package" ] || { apt-get update -qq && package=$(image $metas); }
[ -n "$package" ] || { echo "kernel.sh: apt knows none of $metas: write a kernel to $folder/vmlinuz by hand" >&2; exit 1; }
apt-get -o APT::Sandbox::User=root download -qq "$package"
dpkg -x ./*.deb root
rm -rf "$folder/modules"
mv root/lib/modules/*/kernel "$folder/modules"
cp root/boot/vmlinuz-* "$folder/vmlinuz.new"
mv "$folder/vmlinuz.new" "$folder/vmlinuz"
