#!/usr/bin/env bash
# images.sh [COMPONENT…]: writes the images of the components, or of all, into out/images with
# "bin/images build". Its variables select other folders. It writes nothing while neither the
# Dockerfile nor a program in the images has changed (stamp.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/stamp.sh
bin=${IMAGES_BIN:-bin} out=${IMAGES_OUT:-out/images}
[ $# -gt 0 ] || mapfile -t all < <(sed -n 's/^FROM image AS //p' images/Dockerfile)
[ $# -gt 0 ] || set -- "${all[@]}"

# inputs COMPONENT…: prints all inputs of the images.
inputs() {
  local programs
  printf '%s\n' "$@"
  env | grep -E '^(VERSION|REVISION|OS_BASE|SOURCE_DATE_EPOCH|IMAGES_[A-Z_]+)=' | sort
  cat /etc/os-release
  dpkg-query -W libc6
  contents tools/images.sh tools/stamp.sh images
  mapfile -t programs < <(awk -v components=" $* " '/^FROM / { wanted = index(components, " " $4 " ") } wanted' images/Dockerfile |
    sed -n 's#^COPY --from=build /out/\([^ ]*\) .*#\1#p' | sort -u)
  written bin/images "${programs[@]/#/$bin/}" || true # "bin/images build" says what is missing
}

now=$(inputs "$@" | digest)
stamp=out/stamps/$(printf "%s\n" "$out" "$@" | digest)
if fresh "$stamp" "$now"; then
  echo "$out: up to date"
  exit
fi
bin/images build "$@"
archives=("${@/%/.tar}")
stamp "$stamp" "$now" "${archives[@]/#/$out/}"
