//go:build e2e

package plain_test

import (
	"fmt"
	"strings"

	"outrigger.dev/test/cluster/cluster"
)

// monitor is a pod as those of exporters: it has no GPU, and reads the driver of the host.
const monitor = `
apiVersion: v1
kind: Pod
metadata: {name: monitor}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  tolerations: [{operator: Exists}]
  containers:
  - name: plain
    image: %[2]s
    command: [sleep, "3600"]
  - name: privileged
    image: %[2]s
    command: [sleep, "3600"]
    securityContext: {privileged: true}
    volumeMounts: [{name: driver, mountPath: /run/nvidia/driver, readOnly: true}]
  volumes: [{name: driver, hostPath: {path: /run/nvidia/driver, type: Directory}}]
`

// containers runs containers without a GPU. They see the GPUs in their own /proc and /sys, and nothing else.
func containers(n node) {
	n.Must(n.Apply(n.T.Context(), fmt.Sprintf(monitor, n.name, cluster.BusyboxImage)))
	n.MustKubectl("wait", "pod/monitor", "--for=condition=Ready", "--timeout", limit.String())
	in := func(container, script string) string {
		return strings.TrimSpace(n.MustKubectl("exec", "monitor", "-c", container, "--", "sh", "-c", script))
	}
	for _, container := range []string{"plain", "privileged"} {
		for script, want := range map[string]string{
			"ls /proc/driver/nvidia/gpus | wc -l":                     "8",
			"grep -c 580 /proc/driver/nvidia/version":                 "1",
			"grep -c nvidia /proc/devices":                            "6",
			"cat /sys/bus/pci/devices/*/vendor | grep -c 0x10de":      "8",
			"ls /proc/driver/nvidia-caps/mig-minors":                  "/proc/driver/nvidia-caps/mig-minors",
			"touch /proc/driver/x 2>&1 | grep -c 'Read-only file sy'": "1",
		} {
			if got := in(container, script); got != want {
				n.T.Errorf("container %s: %s: %s, want %s", container, script, got, want)
			}
		}
	}
	if got := in("plain", "ls /dev | grep -c nvidia; true"); got != "0" {
		n.T.Errorf("a container without a GPU has %s device nodes", got)
	}
	if got := in("privileged", "ls /run/nvidia/driver/usr/bin/nvidia-smi /dev/nvidia7"); got != "/run/nvidia/driver/usr/bin/nvidia-smi\n/dev/nvidia7" && got != "/dev/nvidia7\n/run/nvidia/driver/usr/bin/nvidia-smi" {
		n.T.Errorf("a privileged container has %s", got)
	}
	n.MustKubectl("delete", "pod", "monitor", "--force", "--grace-period=0")
}
