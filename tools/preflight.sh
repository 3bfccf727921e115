#!/usr/bin/env bash
# preflight.sh [root]: prints in one line what this machine lacks, and how to install it.
set -euo pipefail

die() {
  echo "outrigger: $*" >&2
  exit 1
}

[ "$(uname -s)" = Linux ] || die "this needs Linux; run it in a virtual machine with Debian 12/13 or Ubuntu 22.04/24.04"
if [ "${1:-}" = root ]; then
  # The PATH of sudo does not have Go.
  [ "$(id -u)" -eq 0 ] || die "this needs root (it makes namespaces, mounts and device nodes); run: sudo env PATH=\"\$PATH\" make ${MAKECMDGOALS:-demo}"
  [ "$(uname -m)" = x86_64 ] || die "the demo and the tests on clusters need x86_64, this is $(uname -m); use a machine or a virtual machine with x86_64"
fi
if ! command -v go >/dev/null; then
  die "Go 1.26 or newer is missing; install it from https://go.dev/dl/ and add its bin folder to PATH (with sudo: sudo env PATH=\"\$PATH\" make …)"
fi
# The Makefile selects a toolchain, which may not be downloaded yet.
version=$(GOTOOLCHAIN=local go env GOVERSION) || die "$(command -v go) does not run; install Go 1.26 or newer from https://go.dev/dl/"
minor=${version#go1.}
minor=${minor%%[!0-9]*}
case $version in
go1.*) [ "${minor:-0}" -ge 26 ] || die "Go 1.26 or newer is needed, found ${version#go}; install it from https://go.dev/dl/" ;;
esac
