//go:build e2e

package plain_test

import "outrigger.dev/test/e2e/stack"

// namespace is the namespace of the release.
const namespace = "gpu-operator"

// oneCommand gets a cluster with simulated GPUs, and all agents, by one command of Helm, and removes them by another one.
func oneCommand(n node) {
	// As on a new cluster. Helm rejects a release with a namespace that others have made.
	n.label("")
	n.MustKubectl("uncordon", n.Nodes()[1])
	n.MustKubectl("delete", "namespace", stack.Namespace, "--timeout="+limit.String())
	helm, err := n.Helm(namespace)
	n.Must(err)
	n.part("pods compute", func(n node) {
		n.Must(helm.Install(n.T.Context(), "outrigger", map[string]any{"sim": map[string]any{"enabled": true}}))
		n.Must(n.WaitAllocatable(n.T.Context(), n.name, stack.GPU, 8, limit))
		n.Must(n.WaitGPUReady(n.T.Context(), n.name, limit))
		n.MustKubectl("wait", "--for=condition=Ready", "gpupolicy/cluster-policy", "--timeout="+limit.String())
		n.computes("one-command")
	})
	n.part("nothing stays", func(n node) {
		n.Must(helm.Uninstall("outrigger"))
		n.has(0, "H100")
		n.Until("no pod is left", func() bool { return n.MustKubectl("-n", namespace, "get", "pods", "-o", "name") == "" })
	})
}
