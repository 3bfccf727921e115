#!/usr/bin/env bash
# charts.sh: lints every chart, packages it into out/charts, writes the packages as an OCI layout
# into out/charts/oci, and copies the manifests for use without Helm. A test of the charts keeps
# these manifests equal to the rendered charts. The package of the chart outrigger also includes the
# chart in out/nfd-chart.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p out/charts
# Otherwise the OCI layout would include packages of another version.
rm -f out/charts/*.tgz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for chart in charts/*/Chart.yaml; do
  chart=$(dirname "$chart")
  bin/helm lint --strict "$chart" --set global.registry=outrigger.dev
  if [ "$chart" = charts/outrigger ]; then
    cp -r "$chart" "$work/"
    chart=$work/outrigger
    tools/nfd-chart.sh add out/nfd-chart "$chart"
  fi
  bin/helm package "$chart" --destination out/charts
done
bin/images charts --out out/charts/oci out/charts/*.tgz
cp deployments/static/*.yaml out/charts/
