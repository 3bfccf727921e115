#!/usr/bin/env bash
# release.sh check ARCH…: fails, with all reasons, if this checkout on this machine cannot make a
# release.
# release.sh write ARCH…: writes the release of the programs in out/build into out/release/CHANNEL.
# release.sh assets: copies the files that people download one by one from out/release/CHANNEL to
# out/release/assets, with checksums. The manifests there name the images of REGISTRY, and the manifest
# for krew names the files below the address DOWNLOADS.
# The same commit on the same Debian with the same Go gives the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${VERSION:?release.sh: set VERSION, as "make release" does}" "${OS_BASE:?release.sh: set OS_BASE}" "${CHANNEL:?release.sh: set CHANNEL}"
verb=${1:-}
shift || true
umask 022
export LC_ALL=C TZ=UTC0
calver=$(sed -n 's/^VERSION := //p' versions.mk)

check() {
  local status=0 chart base
  complain() { echo "outrigger: no release: $*" >&2; status=1; }
  if ! git rev-parse -q --verify HEAD >/dev/null 2>&1; then
    complain "this folder is no checkout of git, and a release names its commit: git clone the repository"
  elif [ -n "$(git status --porcelain)" ]; then
    complain "files differ from the commit that the release would name as its source: commit or remove what \"git status\" shows"
  fi
  case $CHANNEL in
  stable) [ "$VERSION" = "$calver" ] || complain "the version is $VERSION, versions.mk has $calver: make bump TO=$VERSION, and commit" ;;
  nightly)
    [[ $VERSION =~ ^${calver//./\\.}-nightly\.[0-9]{8}$ ]] ||
      complain "the version is $VERSION, a nightly is $calver-nightly.YYYYMMDD: omit VERSION" ;;
  *) complain "no channel $CHANNEL: use stable or nightly" ;;
  esac
  for chart in charts/*/Chart.yaml; do
    base=$(sed -n 's|^ *outrigger.dev/os-base: ||p' "$chart")
    [ -z "$base" ] || [ "$base" = "$OS_BASE" ] ||
      complain "$chart takes images for $base, this machine makes them for $OS_BASE: build on $base, or change the chart"
  done
  tools/cross.sh -- "$@" || status=1
  # The images of a release do not come from a registry. The pins are for people who build images
  # from its sources.
  tools/pins.sh --check || status=1
  [ $status -eq 0 ] || exit $status
}

# package CHART: packages the chart in a folder. Helm writes the charts within a chart in random
# order, so the package is packed again, sorted.
package() {
  local name
  name=$(basename "$1")
  bin/helm package "$1" --destination "$work/packages"
  mkdir "$work/package"
  tar -xzf "$work/packages/$name-$VERSION.tgz" -C "$work/package"
  (cd "$work/package" && find "$name" -type f -print0 | sort -z |
    tar --null --no-recursion --files-from=- --create --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --mode=0644 --owner=0 --group=0 --numeric-owner) |
    gzip -n9 >"$new/charts/$name-$VERSION.tgz"
  rm -r "$work/package"
}

# charts: packages the charts in this version, and writes the index of the channel.
charts() {
  local chart
  mkdir "$work/charts" "$work/packages"
  for chart in charts/*/Chart.yaml; do cp -r "$(dirname "$chart")" "$work/charts/"; done
  find "$work/charts" -type f -exec sed -i "s/\b${calver//./\\.}\b/$VERSION/g" {} +
  tools/nfd-chart.sh add out/nfd-chart "$work/charts/outrigger"
  for chart in "$work"/charts/*; do package "$chart"; done
  bin/helm repo index "$new/charts"
  # Helm writes the current time. Replace it by the time of the commit.
  sed -i -E "s/^(generated|[ -]*created): .*/\1: \"$(date -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)\"/" "$new/charts/index.yaml"
  bin/images charts --out "$new/charts/oci" "$new"/charts/*.tgz
}

# manifests: copies the manifests for use without Helm, in this version.
manifests() {
  mkdir -p "$new/manifests"
  cp deployments/static/*.yaml "$new/manifests/"
  sed -i "s/\b${calver//./\\.}\b/$VERSION/g" "$new"/manifests/*.yaml
}

# source_archive: packs the files of the commit.
source_archive() {
  mkdir -p "$new/source"
  git archive --prefix="outrigger-$VERSION/" HEAD | gzip -n9 >"$new/source/outrigger-$VERSION.tar.gz"
}

# plugin ARCH…: packs the plugin of kubectl for each architecture, with its license and a manifest for krew.
plugin() {
  local arch file to=$new/kubectl
  mkdir -p "$to" "$work/plugin"
  sed "1d; s/VERSION/$VERSION/" orchestrator/kubectl-outrigger/krew.yaml >"$to/outrigger.krew.yaml"
  for arch in "$@"; do
    file=kubectl-outrigger-$VERSION-linux-$arch.tar.gz
    cp "out/build/$arch/kubectl-outrigger" orchestrator/kubectl-outrigger/kubectl_complete-outrigger LICENSE "$work/plugin/"
    tar --create --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --mode=u=rwX,go=rX --owner=0 --group=0 --numeric-owner -C "$work/plugin" . | gzip -n9 >"$to/$file"
    cat >>"$to/outrigger.krew.yaml" <<PLATFORM
    - selector:
        matchLabels: {os: linux, arch: $arch}
      uri: DOWNLOADS/$file
      sha256: $(sha256sum "$to/$file" | cut -d' ' -f1)
      bin: kubectl-outrigger
PLATFORM
  done
}

# build: prints the sources and the tools of the release.
build() {
  echo "version: $VERSION"
  echo "commit: $(git rev-parse HEAD)"
  echo "base: $OS_BASE, libc6 $(dpkg-query -W -f '${Version}' libc6)"
  echo "go: $(go env GOVERSION)"
  cat out/build/compilers
}

write() {
  local out=out/release arch archs=()
  new=$PWD/$out/.new work=$(mktemp -d)
  trap 'rm -rf "$work" "$new"' EXIT
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
  export SOURCE_DATE_EPOCH
  rm -rf "$new"
  mkdir -p "$new/charts"
  for arch in "$@"; do archs+=(--arch "$arch"); done
  bin/images release --out "$new" "${archs[@]}"
  charts
  manifests
  source_archive
  plugin "$@"
  tools/nfpm.sh "$new/packages" "$@"
  build >"$new/BUILD"
  (cd "$new" && find . -type f -printf '%P\n' | sort | xargs -d '\n' sha256sum) >"$work/SHA256SUMS"
  mv "$work/SHA256SUMS" "$new/"
  chmod -R u=rwX,go=rX "$new"
  rm -rf "${out:?}/$CHANNEL"
  mv "$new" "$out/$CHANNEL"
}

assets() {
  local from=out/release/$CHANNEL to=out/release/assets
  : "${REGISTRY:?release.sh: set REGISTRY, as \"make publish\" does}" "${DOWNLOADS:=DOWNLOADS}"
  [ -e "$from/SHA256SUMS" ] || { echo "outrigger: $from has no release: run make release first" >&2; exit 1; }
  rm -rf "$to"
  mkdir -p "$to"
  cp "$from"/charts/*.tgz "$from"/manifests/*.yaml "$from"/packages/* "$from"/kubectl/* "$from"/source/* "$from/BUILD" "$to/"
  sed -i "s#image: outrigger\.dev/#image: ${REGISTRY%/}/#; s#uri: DOWNLOADS/#uri: ${DOWNLOADS%/}/#" "$to"/*.yaml
  tar --create --sort=name --format=ustar --mtime=@0 --mode=0644 --owner=0 --group=0 --numeric-owner -C "$from" sbom |
    gzip -n9 >"$to/sbom-$VERSION.tar.gz"
  (cd "$to" && sha256sum -- * >../assets.sums && mv ../assets.sums SHA256SUMS)
}

case $verb in
check | write | assets) "$verb" "$@" ;;
*) echo "release.sh: run it as: make release" >&2; exit 2 ;;
esac
