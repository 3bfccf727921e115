//go:build e2e

package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/e2e/stack"
)

// eachKindOfNodeHasItsDriver installs a driver whose image depends on the kernel and the distribution of each node. The
// nodeSelector keeps its pods off all nodes, and the other agents continue to use the driver of the host. The second node has labels as if it had GPUs and another distribution.
func eachKindOfNodeHasItsDriver(t *testing.T, helm *stack.Helm) {
	const nfd = "feature.node.kubernetes.io/"
	plain := shared.Nodes()[0]
	label := func(labels ...string) {
		kubectl(t, append([]string{"label", "node", plain, "--overwrite"}, labels...)...)
	}
	t.Cleanup(func() {
		kubectlCleanup(t, "label", "node", plain, stack.PCILabel+"-", "nvidia.com/gpu.deploy.operands-",
			nfd+"kernel-version.full-", nfd+"system-os_release.ID-", nfd+"system-os_release.VERSION_ID-", nfd+"system-os_release.VERSION_ID.major-")
	})
	label("nvidia.com/gpu.deploy.operands=false")
	label(stack.PCILabel+"=true", nfd+"kernel-version.full=5.14.0-427.el9.x86_64",
		nfd+"system-os_release.ID=rhel", nfd+"system-os_release.VERSION_ID=9.4", nfd+"system-os_release.VERSION_ID.major=9")
	if err := helm.Install(t.Context(), stack.Umbrella, map[string]any{"global": map[string]any{"nvidiaDriverRoot": "/"}, "driver": map[string]any{
		"enabled": true, "repository": "registry.test.outrigger.dev", "version": "580", "usePrecompiled": true,
		"nodeSelector": map[string]any{"test.outrigger.dev/no": "node"},
	}}); err != nil {
		t.Fatal(err)
	}
	first := "580-" + kubectl(t, "get", "node", gpuNode(), "-o",
		`jsonpath={.metadata.labels.feature\.node\.kubernetes\.io/kernel-version\.full}-{.metadata.labels.feature\.node\.kubernetes\.io/system-os_release\.ID}{.metadata.labels.feature\.node\.kubernetes\.io/system-os_release\.VERSION_ID}`)
	tags := func(want ...string) func() bool {
		slices.Sort(want)
		return func() bool {
			images := strings.Fields(kubectl(t, "-n", stack.Namespace, "get", "daemonsets", "--selector=app.kubernetes.io/name=driver-loader", "-o",
				`jsonpath={range .items[*]}{.spec.template.spec.containers[0].image}{"\n"}{end}`))
			for i := range images {
				images[i] = strings.TrimPrefix(images[i], "registry.test.outrigger.dev/driver:")
			}
			slices.Sort(images)
			return slices.Equal(images, want)
		}
	}
	eventually(t, "each kind of node has a DaemonSet", tags(first, "580-5.14.0-427.el9.x86_64-rhel9"))
	label(nfd + "kernel-version.full=5.14.0-503.el9.x86_64")
	began := time.Now()
	eventually(t, "the new kernel has a DaemonSet, and the old one has none", tags(first, "580-5.14.0-503.el9.x86_64-rhel9"))
	t.Logf("the new kernel had a DaemonSet after %.1f s", time.Since(began).Seconds())
	if err := helm.Install(t.Context(), stack.Umbrella, map[string]any{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no DaemonSet is left", tags())
	policyIsReady(t)
}
