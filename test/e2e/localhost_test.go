//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

// TestPortOnLocalhost installs the plugin with a port that only its pod reaches. Install waits
// until the kubelet finds the pod ready, which it learns from processes in the container.
func TestPortOnLocalhost(t *testing.T) {
	pluginWith(t, "metrics.localhost=true")
	defer pluginWith(t)
	allocatable(t, gpus, limit)
	pod := pluginPod(t)
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:9410/proxy/readyz", stack.Namespace, pod)
	if out, err := shared.Kubectl(t.Context(), "get", "--raw", path); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("the port is open outside of the pod: %v: %s", err, out)
	}
	if out := kubectl(t, "-n", stack.Namespace, "exec", pod, "--", "/usr/bin/device-plugin", "probe", "readyz"); !strings.HasSuffix(out, "ok") {
		t.Errorf("the probe in the container prints %q", out)
	}
}
