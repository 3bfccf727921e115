#!/usr/bin/env bash
# cross.sh FOLDER… -- ARCH…: builds the commands below each FOLDER for each architecture (amd64,
# arm64) into out/build/ARCH. It empties out/build first. out/build/compilers lists the C compilers
# and linkers.
# cross.sh -- ARCH…: only checks that this machine has the compilers.
set -euo pipefail
cd "$(dirname "$0")/.."
own=${CC:-gcc}
folders=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do folders+=("$1"); shift; done
[ $# -gt 1 ] || { echo "cross.sh: name the architectures: ARCHS=\"amd64 arm64\"" >&2; exit 2; }
shift

# compiler ARCH: prints the C compiler for the programs that link C.
compiler() {
  case $1 in
  "$(go env GOHOSTARCH)") echo "$own" ;;
  amd64) echo x86_64-linux-gnu-gcc ;;
  arm64) echo aarch64-linux-gnu-gcc ;;
  *) echo "outrigger: nothing is built for the architecture $1: use amd64 or arm64" >&2; return 2 ;;
  esac
}

# Check for all compilers before the results of an earlier run are deleted.
for arch in "$@"; do
  CC=$(compiler "$arch")
  [ "$CC" = "$own" ] || echo '#include <stdlib.h>' | "$CC" -E - >/dev/null 2>&1 || {
    debian=$arch triplet=${CC%-gcc}
    echo "outrigger: no C compiler for $arch: apt-get install gcc-$triplet libc6-dev-$debian-cross, or set ARCHS=$(go env GOHOSTARCH)" >&2
    exit 1
  }
done
[ ${#folders[@]} -gt 0 ] || exit 0

# Fix the variables of the caller that would change the programs.
unset CGO_CPPFLAGS CGO_CXXFLAGS CGO_LDFLAGS GOEXPERIMENT
export GOOS=linux GOAMD64=v1 GOARM64=v8.0
rm -rf out/build
for arch in "$@"; do
  CC=$(compiler "$arch")
  export CC BIN=$PWD/out/build/$arch GOARCH=$arch
  mkdir -p "$BIN"
  echo "C for $arch: $("$CC" --version | head -n 1), $("$("$CC" -print-prog-name=ld)" --version | head -n 1)" >>out/build/compilers
  tools/build.sh "${folders[@]}"
  # The libraries of the simulator's driver.
  case " ${folders[*]} " in
  *" sim/... "*) make -C sim/lib CC="$CC" OUT="$BIN/lib" ;;
  esac
done
