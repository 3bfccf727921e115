package doctor_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/cause"
)

// TestTheFirstCauseIsFirst has two or more faults at the same time. The fault that comes first in the chain explains
// the rest: its signs at later links are in one line, and other faults follow.
func TestTheFirstCauseIsFirst(t *testing.T) {
	loaderSays := func(c *cluster, code cause.Code) {
		c.notReady(facts.DriverLoader, node)
		c.answers(facts.DriverLoader, node, "", "driver-loader: probe the agent: readyz answers 503: "+cause.New(code, "it", "is so").Line(), "probe", "readyz")
	}
	upgrade := func(c *cluster, state string, code cause.Code) {
		c.node(node).Labels["nvidia.com/gpu-driver-upgrade-state"] = state
		c.node(node).Annotations["outrigger.dev/driver-upgrade-cause"] = cause.New(code, "it", "is so").Line()
	}
	for name, tc := range map[string]struct {
		breaks func(c *cluster)
		want   []cause.Code
		// follows are codes in the line of the first finding.
		follows []cause.Code
	}{
		"no driver, so no toolkit and no plugin": {func(c *cluster) {
			c.unready(node, cause.DriverNotFound)
			loaderSays(c, cause.KernelHeadersMissing)
			c.notReady(facts.ContainerToolkit, node)
			c.notReady(facts.DevicePlugin, node)
		}, []cause.Code{cause.KernelHeadersMissing}, []cause.Code{cause.DriverNotFound, cause.NotReady}},
		"the driver's image is missing, and the condition shows it": {func(c *cluster) {
			c.unready(node, cause.DriverNotFound)
			c.fails(facts.DriverLoader, node, cause.ImagePullBackOff)
			c.notReady(facts.DevicePlugin, node)
		}, []cause.Code{cause.ImagePullBackOff}, []cause.Code{cause.DriverNotFound, cause.NotReady}},
		"the driver hangs, and the plugin offers nothing": {func(c *cluster) {
			c.unready(node, cause.DriverHangs)
			c.event("Node", "", node, "GPUsNotOffered", "hang: nvmlInit has not answered")
			c.notReady(facts.DevicePlugin, node)
		}, []cause.Code{cause.DriverHangs, cause.DeviceHang}, []cause.Code{cause.NotReady}},
		"an upgrade waits for pods while the toolkit is gone": {func(c *cluster) {
			c.unready(node, cause.ToolkitNotReady)
			upgrade(c, "wait-for-jobs-required", cause.WaitingForPods)
			c.notReady(facts.ContainerToolkit, node)
		}, []cause.Code{cause.WaitingForPods}, []cause.Code{cause.ToolkitNotReady, cause.NotReady}},
		"an upgrade waits for its turn, and the plugin crashes": {func(c *cluster) {
			c.unready(node, cause.PluginWriterDead)
			upgrade(c, "upgrade-required", cause.WaitingForUpgradeSlot)
			c.fails(facts.DevicePlugin, node, cause.CrashLoopBackOff)
		}, []cause.Code{cause.CrashLoopBackOff, cause.WaitingForUpgradeSlot}, []cause.Code{cause.PluginWriterDead}},
		"MIG failed, and the plugin waits": {func(c *cluster) {
			c.unready(node, cause.MIGNotReady)
			c.node(node).Labels["nvidia.com/mig.config.state"] = "failed"
			c.node(node).Annotations["outrigger.dev/mig-config-cause"] = "GPU 3: in use"
			c.notReady(facts.DevicePlugin, node)
		}, []cause.Code{cause.MIGConfigFailed}, []cause.Code{cause.MIGNotReady, cause.NotReady}},
		"two independent faults: driver and image of the plugin": {func(c *cluster) {
			c.unready(node, cause.DriverNotFound)
			loaderSays(c, cause.NoSpace)
			c.fails(facts.DevicePlugin, node, cause.ErrImageNeverPull)
		}, []cause.Code{cause.NoSpace, cause.ErrImageNeverPull}, []cause.Code{cause.DriverNotFound}},
		"the node is down, so nothing else is known": {func(c *cluster) {
			c.unready(node, cause.DriverHangs)
			c.fails(facts.DevicePlugin, node, cause.CrashLoopBackOff)
			c.node(node).Status.Conditions[0].Status = corev1.ConditionUnknown
		}, []cause.Code{cause.NodeNotReady}, nil},
		"a label keeps the toolkit off, and the plugin waits": {func(c *cluster) {
			c.unready(node, cause.PluginNotReady)
			c.node(node).Labels["nvidia.com/gpu.deploy.container-toolkit"] = "false"
			c.notReady(facts.DevicePlugin, node)
		}, []cause.Code{cause.NodeOptedOut}, []cause.Code{cause.PluginNotReady, cause.NotReady}},
		"one GPU is sick, and the exporter crashes": {func(c *cluster) {
			offer(c.node(node), gpu, 7, 8)
			c.event("Node", "", node, "DeviceUnhealthy", "xid: nvidia.com/gpu 3 GPU-3: xid 79")
			c.fails(facts.DevicePlugin, node, cause.NotReady)
		}, []cause.Code{cause.DeviceXID}, nil},
		"toolkit and validation fail": {func(c *cluster) {
			c.unready(node, cause.ToolkitUnreadable)
			c.fails(facts.ContainerToolkit, node, cause.OOMKilled)
			c.node(node).Spec.Unschedulable = true
		}, []cause.Code{cause.OOMKilled, cause.ToolkitUnreadable, cause.NodeCordoned}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := healthy(node)
			tc.breaks(c)
			r := doctor.Diagnose(c.Facts, onNode())
			if len(r.Findings) == 0 {
				t.Fatal("nothing found")
			}
			var got []cause.Code
			for _, f := range r.Findings {
				got = append(got, f.Code)
			}
			if len(got) < len(tc.want) || !slices.Equal(got[:len(tc.want)], tc.want) {
				t.Errorf("want %v first, got:\n%s", tc.want, text(r))
			}
			for _, code := range tc.follows {
				if !strings.Contains(r.Findings[0].Follows, string(code)) || slices.Contains(got, code) {
					t.Errorf("%s does not follow:\n%s", code, text(r))
				}
			}
		})
	}
}

// TestAnEventEnds has Events about faults that are gone.
func TestAnEventEnds(t *testing.T) {
	for name, breaks := range map[string]func(c *cluster){
		"a device is healthy again": func(c *cluster) {
			c.event("Node", "", node, "DeviceUnhealthy", "xid: nvidia.com/gpu 3 GPU-3: xid 79")
			c.event("Node", "", node, "DeviceHealthy", "nvidia.com/gpu 3 GPU-3: healthy again")
		},
		"the kubelet offers the device again": func(c *cluster) { c.event("Node", "", node, "DeviceUnhealthy", "xid: nvidia.com/gpu 3 GPU-3: xid 79") },
		"the plugin offers GPUs":              func(c *cluster) { c.event("Node", "", node, "GPUsNotOffered", "driver: none") },
		"the driver is built": func(c *cluster) {
			c.event("Node", "", node, "GPUDriverBuildFailed", cause.New(cause.ModuleBuildFailed, "a", "b").Line())
		},
		"a license has arrived": func(c *cluster) {
			c.event("Node", "", node, "VGPULicenseLost", "GPU 0")
			c.event("Node", "", node, "VGPULicensed", "GPU 0")
		},
		"the plan is about the next driver": func(c *cluster) {
			c.answers(facts.DriverLoader, node, "ok\n", "", "probe", "readyz")
			c.answers(facts.DriverLoader, node, encoded(map[string]any{"checks": []any{map[string]any{"cause": cause.New(cause.CompilerMissing, "a", "b")}}}), "", "plan", "--output=json")
		},
		"an upgrade is done": func(c *cluster) { c.node(node).Labels["nvidia.com/gpu-driver-upgrade-state"] = "upgrade-done" },
	} {
		t.Run(name, func(t *testing.T) {
			c := healthy(node)
			breaks(c)
			if r := doctor.Diagnose(c.Facts, onNode()); len(r.Findings) > 0 {
				t.Errorf("\n%s", text(r))
			}
		})
	}
}

// TestTheClusterGroupsCauses has several nodes with the same and with other causes.
func TestTheClusterGroupsCauses(t *testing.T) {
	c := healthy("n1", "n2", "n3", "n4", "n5")
	for _, n := range []string{"n2", "n3", "n4"} {
		c.unready(n, cause.ToolkitNotReady)
	}
	c.unready("n1", cause.DriverHangs)
	c.notReady(facts.DevicePlugin, "n1")
	c.node("n3").Status.Conditions[1].LastTransitionTime = ago(3 * time.Hour)
	p := c.user("train", "", map[string]int64{"nvidia.com/gpuu": 1})
	c.user("other", "", map[string]int64{"nvidia.com/gpuu": 1})
	p.Namespace = "a"
	r := doctor.Diagnose(c.Facts, facts.Target{})
	var got []cause.Code
	for _, f := range r.Findings {
		got = append(got, f.Code)
	}
	if want := []cause.Code{cause.DriverHangs, cause.ToolkitNotReady, cause.ResourceUnknown}; !slices.Equal(got, want) {
		t.Fatalf("want %v, got:\n%s", want, text(r))
	}
	toolkit := r.Findings[1]
	if toolkit.Nodes != 3 || !slices.Equal(toolkit.Examples, []string{"n2", "n3", "n4"}) || !toolkit.Since.Equal(ago(3*time.Hour).Time) {
		t.Errorf("%+v", toolkit)
	}
	if r.Verdict != "GPUs of 1 of 5 GPU nodes can be used; the first cause is DriverHangs (on 1 node)" || r.ExitCode() != 4 {
		t.Errorf("%q, exit code %d", r.Verdict, r.ExitCode())
	}
	if pods := r.Findings[2]; !slices.Equal(pods.Examples, []string{"pod a/train", "pod team/other"}) {
		t.Errorf("%+v", pods)
	}
}

// TestAdmissionForbidsAgents has a DaemonSet whose pods cannot be created on any node.
func TestAdmissionForbidsAgents(t *testing.T) {
	c := healthy("n1", "n2")
	for _, n := range []string{"n1", "n2"} {
		c.unready(n, cause.ToolkitNotReady)
		c.remove(facts.ContainerToolkit, n)
	}
	c.event("DaemonSet", ns, "nvidia-container-toolkit", "FailedCreate", `pods is forbidden: violates PodSecurity "restricted:latest"`)
	for _, ds := range c.DaemonSets {
		if ds.Name == "nvidia-container-toolkit" {
			ds.Status.DesiredNumberScheduled = 2
		}
	}
	for _, target := range []facts.Target{{}, onNode()} {
		r := doctor.Diagnose(c.Facts, target)
		if r.Findings[0].Code != cause.AgentMissing || !strings.Contains(r.Findings[0].Evidence, "PodSecurity") {
			t.Errorf("%s:\n%s", target, text(r))
		}
	}
}

// TestAPodOfABrokenNode has a pod that runs, while its node cannot use GPUs any more.
func TestAPodOfABrokenNode(t *testing.T) {
	for name, tc := range map[string]struct {
		breaks func(c *cluster)
		want   cause.Code
	}{
		"the driver hangs": {func(c *cluster) { c.unready(node, cause.DriverHangs) }, cause.DriverHangs},
		"a GPU is sick": {func(c *cluster) {
			offer(c.node(node), gpu, 7, 8)
			c.event("Node", "", node, "DeviceUnhealthy", "memory: nvidia.com/gpu 3 GPU-3: uncorrectable")
		}, cause.DeviceMemory},
		"the node is cordoned": {func(c *cluster) { c.node(node).Spec.Unschedulable = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := healthy(node)
			c.user("train", node, map[string]int64{gpu: 1})
			tc.breaks(c)
			r := doctor.Diagnose(c.Facts, ofTrain())
			if got := append(r.Findings, doctor.Finding{})[0].Code; got != tc.want {
				t.Errorf("want %q, got:\n%s", tc.want, text(r))
			}
		})
	}
}

// TestTheAnswerOfTheDevicePlugin reads the output of the agent's own test.
func TestTheAnswerOfTheDevicePlugin(t *testing.T) {
	said, err := os.ReadFile("../../../agents/device-plugin/internal/app/testdata/explain-json.golden")
	if err != nil {
		t.Fatal(err)
	}
	c := healthy(node)
	offer(c.node(node), gpu, 7, 8)
	c.answers(facts.DevicePlugin, node, string(said), "", "explain", "--output=json")
	r := doctor.Diagnose(c.Facts, onNode())
	if r.Findings[0].Code != cause.DeviceFault || !strings.Contains(r.Findings[0].Evidence, "GPU is lost") {
		t.Errorf("\n%s", text(r))
	}
}

// TestNVIDIAsAgents has a node of NVIDIA's GPU Operator, which has no condition GPUReady.
func TestNVIDIAsAgents(t *testing.T) {
	c := healthy(node)
	n := c.node(node)
	n.Status.Conditions = n.Status.Conditions[:1]
	n.Status.Capacity, n.Status.Allocatable = nil, nil
	for _, p := range c.Pods {
		p.Labels = map[string]string{"app": map[string]string{
			facts.DriverLoader: "nvidia-driver-daemonset", facts.ContainerToolkit: "nvidia-container-toolkit-daemonset", facts.DevicePlugin: "nvidia-device-plugin-daemonset",
		}[facts.Agent(p.Labels)]}
	}
	c.fails(facts.DevicePlugin, node, cause.ContainerCreating)
	c.fails(facts.DriverLoader, node, cause.ImagePullBackOff)
	r := doctor.Diagnose(c.Facts, onNode())
	if r.Findings[0].Code != cause.ImagePullBackOff || r.Findings[0].Link != "driver" {
		t.Errorf("\n%s", text(r))
	}
}
