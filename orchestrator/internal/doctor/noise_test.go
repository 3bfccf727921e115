package doctor_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/cause"
)

// What explains nothing is not in a report, or not before the cause.
func TestNoiseIsNoCause(t *testing.T) {
	one := map[string]int64{gpu: 1}
	for name, tc := range map[string]struct {
		change func(c *cluster) facts.Target
		want   []cause.Code
		// lacks is in no evidence.
		lacks string
	}{
		"a pod without a request on a node without GPUs": {func(c *cluster) facts.Target {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
			c.Nodes = append(c.Nodes, n)
			c.user("train", "plain", nil)
			return ofTrain()
		}, []cause.Code{cause.NoGPURequested}, ""},
		"a validation that has ended": {func(c *cluster) facts.Target {
			p := c.agent(facts.FeatureDiscovery, node).DeepCopy()
			p.Name, p.OwnerReferences = "nvidia-driver-validation", nil
			p.Labels = map[string]string{"app.kubernetes.io/part-of": "outrigger", "outrigger.dev/validation": "nvidia-driver-validation"}
			p.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"},
			}}}}
			c.Pods = append(c.Pods, p)
			return onNode()
		}, nil, ""},
		"a Warning that stops no container": {func(c *cluster) facts.Target {
			p := c.user("train", node, one)
			p.Status.Phase = corev1.PodPending
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
			c.event("Pod", "team", "train", "FailedMount", "no Secret key")
			c.event("Pod", "team", "train", "MissingClusterDNS", "kubelet does not have ClusterDNS IP configured")
			return ofTrain()
		}, []cause.Code{cause.ContainerCreating}, "ClusterDNS"},
		"an Event from before, about a link that holds": {func(c *cluster) facts.Target {
			c.unready(node, cause.ToolkitWriterDead)
			c.fails(facts.ContainerToolkit, node, cause.ImagePullBackOff)
			c.event("Node", "", node, "GPUsNotOffered", "driver: the kernel module nvidia is not loaded")
			return onNode()
		}, []cause.Code{cause.ImagePullBackOff}, "kernel module"},
		"a sign of the cause that an Event names": {func(c *cluster) facts.Target {
			offer(c.node(node), gpu, 7, 8)
			c.event("Node", "", node, "DeviceUnhealthy", "lost: nvidia.com/gpu 0 GPU-8bbb9494: gpu is lost")
			c.answers(facts.DevicePlugin, node, encoded(map[string]any{"resources": []any{map[string]any{"name": gpu, "devices": []any{
				map[string]any{"index": "0", "uuid": "GPU-8bbb9494", "kind": "fault", "reason": "nvmlDeviceGetHandleByIndex_v2: GPU is lost"},
			}}}}), "", "explain", "--output=json")
			return onNode()
		}, []cause.Code{cause.DeviceLost, cause.GPUsFaulty}, "nvmlDeviceGetHandleByIndex_v2"},
		"an Event of the plugin from before the node worked": {func(c *cluster) facts.Target {
			c.unready(node, cause.PluginWriterDead)
			c.fails(facts.DevicePlugin, node, cause.ImagePullBackOff)
			c.event("Node", "", node, "GPUsNotOffered", "driver: the kernel module nvidia is not loaded")
			c.Events[len(c.Events)-1].LastTimestamp = ago(25 * time.Minute)
			return onNode()
		}, []cause.Code{cause.ImagePullBackOff}, "kernel module"},
		"an Event about a device that is healthy again": {func(c *cluster) facts.Target {
			c.unready(node, cause.ToolkitNotReady)
			offer(c.node(node), gpu, 8, 8)
			c.notReady(facts.ContainerToolkit, node)
			c.event("Node", "", node, "DeviceUnhealthy", "lost: the GPU left the bus")
			return onNode()
		}, []cause.Code{cause.NotReady}, "left the bus"},
		"indices that have moved, for the cluster": {func(c *cluster) facts.Target {
			c.event("Node", "", node, "GPUIndexShifted", "0:1 MIG-1: NVML has another index for the device now")
			return facts.Target{}
		}, nil, ""},
		"indices that have moved, for a pod": {func(c *cluster) facts.Target {
			c.event("Node", "", node, "GPUIndexShifted", "0:1 MIG-1: NVML has another index for the device now")
			c.user("train", node, one)
			return ofTrain()
		}, nil, ""},
		"indices that have moved, beside an agent that fails": {func(c *cluster) facts.Target {
			c.event("Node", "", node, "GPUIndexShifted", "0:1 MIG-1: NVML has another index for the device now")
			p := c.agent(facts.DevicePlugin, node).DeepCopy()
			p.Name, p.Labels = facts.Exporter+"-"+node, map[string]string{"app.kubernetes.io/part-of": "outrigger", "app.kubernetes.io/component": facts.Exporter}
			c.Pods = append(c.Pods, p)
			c.fails(facts.Exporter, node, cause.CrashLoopBackOff)
			return onNode()
		}, []cause.Code{cause.CrashLoopBackOff, cause.GPUIndexShifted}, ""},
		"the name of the only node": {func(c *cluster) facts.Target {
			c.user("other", node, map[string]int64{gpu: 8})
			c.user("train", "", one)
			return ofTrain()
		}, []cause.Code{cause.GPUsExhausted}, node + ": " + node},
	} {
		t.Run(name, func(t *testing.T) {
			c := healthy(node)
			target := tc.change(c)
			r := doctor.Diagnose(c.Facts, target)
			var got []cause.Code
			for _, f := range r.Findings {
				got = append(got, f.Code)
				if tc.lacks != "" && strings.Contains(f.Evidence, tc.lacks) {
					t.Errorf("the evidence has %q: %s", tc.lacks, f.Evidence)
				}
			}
			if len(got) != len(tc.want) || len(got) > 0 && got[0] != tc.want[0] {
				t.Errorf("the findings are %v, want %v", got, tc.want)
			}
		})
	}
}

// TestNodesOnPurposeWithoutAgents has nodes that labels opt out. The cluster has them in a note, as the orchestrator and the
// command status do, and the diagnosis of the node itself has the finding.
func TestNodesOnPurposeWithoutAgents(t *testing.T) {
	for _, label := range []string{"operands", "device-plugin", "container-toolkit"} {
		c := healthy("gpu-1", "gpu-2")
		optOut := func(name string) {
			c.unready(name, cause.PluginNotReady)
			c.node(name).Labels["nvidia.com/gpu.deploy."+label] = "false"
		}
		check := func(want cause.Code, exit int, verdict, note string) {
			t.Helper()
			r := doctor.Diagnose(c.Facts, facts.Target{})
			if got := append(r.Findings, doctor.Finding{})[0].Code; got != want || r.ExitCode() != exit || !strings.HasPrefix(r.Verdict, verdict) || !strings.Contains(strings.Join(r.Notes, "\n"), note) {
				t.Errorf("%s: want %q, the exit code %d, %q and the note %q, got %d:\n%s", label, want, exit, verdict, note, r.ExitCode(), text(r))
			}
		}
		optOut("gpu-2")
		check("", 0, "GPUs of 1 of 1 GPU node can be used", "1 more GPU node: gpu-2")
		if r := doctor.Diagnose(c.Facts, facts.Target{Node: "gpu-2"}); len(r.Findings) == 0 || r.Findings[0].Code != cause.NodeOptedOut || r.ExitCode() != 4 {
			t.Errorf("%s: %d\n%s", label, r.ExitCode(), text(r))
		}
		c.unready("gpu-1", cause.DriverHangs)
		check(cause.DriverHangs, 4, "GPUs of 0 of 1 GPU node can be used; the first cause is DriverHangs", "gpu-2")
		optOut("gpu-1")
		check("", 0, "GPUs of 0 of 0 GPU nodes can be used", "2 more GPU nodes: gpu-1, gpu-2")
		if closely := doctor.Closely(c.Facts); len(closely) > 0 {
			t.Errorf("%s: %v", label, closely)
		}
	}
}
