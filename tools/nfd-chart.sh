#!/usr/bin/env bash
# nfd-chart.sh get FOLDER: writes the chart of Node Feature Discovery, and its license, into FOLDER.
# The chart comes from the Go module, in the version that the tests use.
# nfd-chart.sh add FOLDER CHART: adds the chart in FOLDER to CHART, a copy of the chart outrigger, as a dependency.
set -euo pipefail
verb=${1:-}
folder=${2:?usage: nfd-chart.sh get FOLDER, or nfd-chart.sh add FOLDER CHART}
name=node-feature-discovery
module=sigs.k8s.io/$name

get() {
  local version dir new=$folder.new
  if [ -n "${DOWNLOAD_GOPROXY:-}" ]; then export GOPROXY=$DOWNLOAD_GOPROXY; else unset GOPROXY; fi
  export GOWORK=off
  cd "$(dirname "$0")/../test/cluster/components/nfd"
  go mod download $module
  read -r version dir < <(go list -m -f '{{.Version}} {{.Dir}}' $module)
  rm -rf "$new"
  mkdir -p "$(dirname "$new")"
  cp -r --no-preserve=mode "$dir/deployment/helm/$name" "$new"
  cp --no-preserve=mode "$dir/LICENSE" "$new/"
  # As in the releases of the project, the chart gets the version of the release.
  sed -i "s/^version: .*/version: ${version#v}/" "$new/Chart.yaml"
  rm -rf "${folder:?}"
  mv "$new" "$folder"
}

add() {
  local chart=${1:?usage: nfd-chart.sh add FOLDER CHART} version
  [ -e "$folder/Chart.yaml" ] || { echo "nfd-chart.sh: $folder does not have the chart of Node Feature Discovery; run first: tools/nfd-chart.sh get $folder" >&2; exit 1; }
  version=$(sed -n 's/^version: //p' "$folder/Chart.yaml")
  cp -r "$folder" "$chart/charts/$name"
  sed -i "/^dependencies:/a\\
  - name: $name\\
    version: $version\\
    repository: oci://registry.k8s.io/nfd/charts\\
    condition: nfd.enabled\\
    tags: [optional]" "$chart/Chart.yaml"
}

case $verb in
get) folder=$(realpath -m "$folder") && get ;;
add) add "${3:-}" ;;
*) echo "usage: nfd-chart.sh get FOLDER, or nfd-chart.sh add FOLDER CHART" >&2; exit 2 ;;
esac
