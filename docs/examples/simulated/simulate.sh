#!/usr/bin/env bash
# simulate.sh kind|k3s|minikube: makes a cluster with simulated GPUs on this machine, installs all agents, and computes on a
# GPU. Run it in the root of the repository, after "make images". You need helm, kubectl, and the program of the cluster.
#
# IMAGES are the archives of the images. For a release: IMAGES='RELEASE/images/*-amd64.tar' CHART=RELEASE/charts/outrigger-26.11.0.tgz
set -euo pipefail
IMAGES=${IMAGES:-out/images/*.tar}
CHART=${CHART:-charts/outrigger}
here=$(dirname "$0")

case ${1:-} in
kind)
  kind create cluster --config "$here/kind.yaml" --wait 3m
  # shellcheck disable=SC2086 # a pattern
  kind load image-archive --name gpus $IMAGES
  ;;
k3s)
  # k3s runs already: https://docs.k3s.io/quick-start. Only root can import images and read the kubeconfig.
  export KUBECONFIG=${KUBECONFIG:-/etc/rancher/k3s/k3s.yaml}
  for image in $IMAGES; do k3s ctr images import "$image"; done
  ;;
minikube)
  # With containerd, which has CDI.
  minikube start --container-runtime=containerd --wait=all
  for image in $IMAGES; do minikube image load "$image"; done
  ;;
*)
  echo "usage: $0 kind|k3s|minikube" >&2
  exit 2
  ;;
esac

helm install gpu-operator "$CHART" --namespace gpu-operator --create-namespace \
  --set global.registry=outrigger.dev,sim.enabled=true
kubectl wait --for=create gpupolicy/cluster-policy --timeout=1m
kubectl wait --for=condition=Ready gpupolicy/cluster-policy --timeout=10m
kubectl get nodes -o custom-columns='NODE:.metadata.name,GPUS:.status.allocatable.nvidia\.com/gpu,PRODUCT:.metadata.labels.nvidia\.com/gpu\.product'

kubectl run vectoradd --image=outrigger.dev/vectoradd:26.11.0-debian12 --restart=Never \
  --overrides='{"spec": {"containers": [{"name": "vectoradd", "image": "outrigger.dev/vectoradd:26.11.0-debian12", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}'
kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod/vectoradd --timeout=2m
kubectl logs vectoradd
