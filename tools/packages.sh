#!/usr/bin/env bash
# packages.sh [FILE…]: installs the Debian packages in these files of this folder that are missing.
# The default is packages.txt.
set -euo pipefail
cd "$(dirname "$0")"
[ $# -gt 0 ] || set -- packages.txt

missing=()
while read -r name _; do
  case $name in '' | '#'*) continue ;; esac
  state=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$name")
done < <(cat "$@")
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "outrigger: apt-get is missing; install by hand: ${missing[*]}" >&2
  exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "outrigger: these packages are missing; run: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# Do not start services. Debian would start the services of packages such as Prometheus, and only
# their programs are needed.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap 'rm -f $policy' EXIT
  printf '#!/bin/sh\nexit 101\n' >$policy
  chmod +x $policy
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}"
