//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestARunningPodKeepsItsGPUWhenItsDevicesAreSetAgain does to a running pod what
// "systemctl daemon-reload" does where systemd manages its cgroup: the device rules are
// replaced by those that the runtime was given when it made the container. What
// something has allowed later, as the prestart hook of NVIDIA's runtime does, is lost
// then. There is no systemd here: the rules come from the container's OCI spec, from
// which runc also derives those of its systemd unit, and the test writes them in the
// same order. The spec is checked on every machine, the rest needs cgroup version 1.
func TestARunningPodKeepsItsGPUWhenItsDevicesAreSetAgain(t *testing.T) {
	plugin(t)
	shell := gpuPod(t)
	gpu := strings.TrimSpace(shell("ls -d /dev/nvidia[0-9]*"))
	minor := strings.TrimPrefix(gpu, "/dev/nvidia")
	c := containerOf(t, "shell")
	own := "c 195:" + minor + " rw"
	for _, want := range []string{own, "c 195:255 rw"} {
		if !slices.ContainsFunc(c.allowed, func(rule string) bool { return strings.HasPrefix(rule, want) }) {
			t.Errorf("the OCI spec does not allow %q, which is lost when its devices are set again: %q", want, c.allowed)
		}
	}
	if c.devices == "" {
		t.Skip("this machine has cgroup version 2, where a program in the kernel holds the device rules")
	}
	// No driver is behind the node: one that may be opened answers that there is none.
	opens := func() bool { return strings.Contains(shell("cat "+gpu+" 2>&1; true"), "No such device or address") }
	if !opens() {
		t.Fatalf("%s cannot be opened before anything was done", gpu)
	}
	c.allow(t, c.allowed)
	if !opens() {
		t.Errorf("%s cannot be opened any more after the rules of the OCI spec were set again", gpu)
	}
	// So the test can fail: a GPU that the spec does not have is lost.
	c.allow(t, slices.DeleteFunc(slices.Clone(c.allowed), func(rule string) bool { return strings.HasPrefix(rule, own) }))
	if opens() {
		t.Errorf("%s can still be opened without a rule that allows it", gpu)
	}
}

// container is a running container on the GPU node.
type container struct {
	// allowed are the device rules of its OCI spec, as the cgroup takes them.
	allowed []string
	// devices is its folder in the hierarchy of version 1, empty in version 2.
	devices string
}

// containerOf reads what the runtime knows of the only container of a pod.
func containerOf(t *testing.T, pod string) container {
	t.Helper()
	id := kubectl(t, "get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[0].containerID}")
	folder := "/run/containerd/io.containerd.runtime.v2.task/k8s.io/" + strings.TrimPrefix(id, "containerd://")
	var spec struct {
		Linux struct {
			Resources struct {
				Devices []struct {
					Allow        bool
					Type, Access string
					Major, Minor *int64
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(onNode(t, "cat", folder+"/config.json")), &spec); err != nil {
		t.Fatalf("read the OCI spec of pod %s: %v", pod, err)
	}
	var c container
	number := func(n *int64) string {
		if n == nil || *n < 0 {
			return "*"
		}
		return fmt.Sprint(*n)
	}
	for _, d := range spec.Linux.Resources.Devices {
		if d.Allow {
			c.allowed = append(c.allowed, fmt.Sprintf("%s %s:%s %s", d.Type, number(d.Major), number(d.Minor), d.Access))
		}
	}
	c.devices = strings.TrimSpace(onNode(t, "sh", "-c", `sed -n 's#^[0-9]*:devices:#/sys/fs/cgroup/devices#p' /proc/$(cat `+folder+`/init.pid)/cgroup`))
	return c
}

// allow replaces the rules of the container's cgroup.
func (c container) allow(t *testing.T, rules []string) {
	t.Helper()
	script := "echo a >" + c.devices + "/devices.deny"
	for _, rule := range rules {
		script += " && echo '" + rule + "' >" + c.devices + "/devices.allow"
	}
	onNode(t, "sh", "-c", script)
}
