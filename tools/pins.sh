#!/usr/bin/env bash
# pins.sh: writes the images and the version of Go in versions.mk into images/Dockerfile, and the image
# with Go into the workflow of releases.
# pins.sh --check: fails unless these images have a digest, and these files have the same images and the
# same Go.
set -euo pipefail
cd "$(dirname "$0")/.."
usage() { echo "pins.sh: $*; run it as: make pins" >&2; exit 2; }
[ $# -eq 0 ] || [ "$*" = --check ] || usage "unknown arguments: $*"
[ -n "${GOLANG_IMAGE:-}" ] && [ -n "${DEBIAN_IMAGE:-}" ] || usage "GOLANG_IMAGE or DEBIAN_IMAGE is not set"
[ -n "${GO_VERSION:-}" ] || usage "GO_VERSION is not set"

file=images/Dockerfile workflow=.github/workflows/release.yaml
if [ $# -eq 0 ]; then
  sed -i -e "s|^ARG GOLANG_IMAGE=.*|ARG GOLANG_IMAGE=$GOLANG_IMAGE|" \
    -e "s|^ARG DEBIAN_IMAGE=.*|ARG DEBIAN_IMAGE=$DEBIAN_IMAGE|" \
    -e "s|^ENV GOTOOLCHAIN=.*|ENV GOTOOLCHAIN=go$GO_VERSION|" $file
  sed -i "s|^\( *container: \)golang:.*|\1$GOLANG_IMAGE|" $workflow
  exit
fi

status=0
complain() { echo "outrigger: not pinned: $*" >&2; status=1; }
for name in GOLANG_IMAGE DEBIAN_IMAGE; do
  image=${!name}
  if [[ ! $image =~ @sha256:[0-9a-f]{64}$ ]]; then
    complain "$name in versions.mk is $image, without a digest: add the one that \"docker buildx imagetools inspect $image\" shows, as $image@sha256:…, and run: make pins"
  elif ! grep -qxF "ARG $name=$image" $file; then
    complain "$file does not have the $name of versions.mk: run: make pins"
  elif [ $name = GOLANG_IMAGE ] && ! grep -qxF "    container: $image" $workflow; then
    complain "$workflow does not have the $name of versions.mk: run: make pins"
  fi
done
grep -qxF "ENV GOTOOLCHAIN=go$GO_VERSION" $file || complain "$file does not have the GO_VERSION of versions.mk: run: make pins"
exit $status
