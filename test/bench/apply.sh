#!/usr/bin/env bash
# apply.sh KUBECONFIG: applies the agents' charts at once, and then only watches their DaemonSets.
# It shows the cost for the control plane without a program that orders the roll-out. The measured
# process is this shell.
#   tools/tool.sh helm
#   bin/bench --agent orchestrator --program "test/bench/apply.sh {kubeconfig}"
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
export KUBECONFIG=${1:?usage: apply.sh KUBECONFIG}
namespace=gpu-operator-resources
kubectl() { "$root/bin/cluster-components/kubectl" --cache-dir "$(dirname "$KUBECONFIG")/cache" "$@"; }

kubectl create namespace $namespace >&2
for chart in container-toolkit device-plugin feature-discovery; do
  "$root/bin/helm" template outrigger "$root/charts/$chart" --namespace $namespace --kube-version 1.37.1 --no-hooks --set global.registry=outrigger.dev 2>/dev/null |
    kubectl apply --server-side -f - >&2
done
# kubectl exits with an error on SIGTERM.
trap 'kill $!; exit 0' TERM
"$root/bin/cluster-components/kubectl" get daemonsets --namespace $namespace --watch >&2 &
wait
