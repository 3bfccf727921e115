#!/usr/bin/env bash
# charts.sh: lints and packages every chart into out/charts, and copies the
# manifests for those without Helm beside them. A test of the charts keeps these
# equal to what the charts render.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p out/charts
for chart in charts/*/Chart.yaml; do
  chart=$(dirname "$chart")
  bin/helm lint --strict "$chart"
  bin/helm package "$chart" --destination out/charts
done
cp deployments/static/*.yaml out/charts/
