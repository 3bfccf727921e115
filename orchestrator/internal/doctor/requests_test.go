package doctor_test

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/cause"
)

func ofTrain() facts.Target { return facts.Target{Namespace: "team", Pod: "train"} }

// waits returns the facts with a pod that waits for a node, after a change.
func waits(requests map[string]int64, change func(c *cluster, p *corev1.Pod)) func(*testing.T, *cluster, cause.Code) facts.Target {
	return func(_ *testing.T, c *cluster, _ cause.Code) facts.Target {
		change(c, c.user("train", "", requests))
		return ofTrain()
	}
}

// runs returns the facts with a pod on a node, after a change.
func runs(change func(c *cluster, p *corev1.Pod)) func(*testing.T, *cluster, cause.Code) facts.Target {
	return func(_ *testing.T, c *cluster, _ cause.Code) facts.Target {
		change(c, c.user("train", node, map[string]int64{gpu: 1}))
		return ofTrain()
	}
}

// requests makes the facts for the codes of requests.
func requests() map[cause.Code]func(*testing.T, *cluster, cause.Code) facts.Target {
	one := map[string]int64{gpu: 1}
	return map[cause.Code]func(*testing.T, *cluster, cause.Code) facts.Target{
		cause.ResourceUnknown: waits(map[string]int64{"nvidia.com/gpus": 1}, func(*cluster, *corev1.Pod) {}),
		cause.ResourceShared: waits(one, func(c *cluster, _ *corev1.Pod) {
			c.node(node).Status.Capacity, c.node(node).Status.Allocatable = nil, nil
			offer(c.node(node), gpu+".shared", 32, 32)
		}),
		cause.MIGProfileMissing: waits(map[string]int64{"nvidia.com/mig-3g.40gb": 1}, func(c *cluster, _ *corev1.Pod) { offer(c.node(node), "nvidia.com/mig-1g.10gb", 7, 7) }),
		cause.RequestTooLarge:   waits(map[string]int64{gpu: 9}, func(*cluster, *corev1.Pod) {}),
		cause.SharedRequestTooLarge: runs(func(_ *cluster, p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "UnexpectedAdmissionError", Message: "Allocate failed due to rpc error: code = InvalidArgument desc = invalid request: maximum request size for shared resources is 1; found 2, which is unexpected"}
		}),
		cause.NodesNotSelected: waits(one, func(_ *cluster, p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"nvidia.com/gpu.product": "H100"}
		}),
		cause.TaintNotTolerated: waits(one, func(c *cluster, _ *corev1.Pod) {
			c.node(node).Spec.Taints = []corev1.Taint{{Key: "team", Value: "red", Effect: corev1.TaintEffectNoSchedule}}
		}),
		cause.NodeCordoned: waits(one, func(c *cluster, _ *corev1.Pod) { c.node(node).Spec.Unschedulable = true }),
		cause.NodesNotUsable: waits(one, func(c *cluster, _ *corev1.Pod) {
			c.unready(node, cause.ToolkitNotReady)
			c.node(node).Spec.Taints = []corev1.Taint{{Key: "outrigger.dev/gpu-not-ready", Effect: corev1.TaintEffectNoSchedule}}
		}),
		cause.GPUsExhausted: waits(one, func(c *cluster, _ *corev1.Pod) { c.user("other", node, map[string]int64{gpu: 8}) }),
		cause.ClaimMissing: waits(nil, func(_ *cluster, p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("gpu")}}
		}),
		cause.DeviceClassMissing: waits(nil, func(c *cluster, p *corev1.Pod) {
			c.claim("gpu", draDriver, 1)
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("gpu")}}
		}),
		cause.NoDeviceMatches: waits(nil, func(c *cluster, p *corev1.Pod) {
			c.Classes = dra().Classes
			c.claim("gpu", draDriver, 1)
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("gpu")}}
		}),
		cause.SchedulingGated: waits(one, func(_ *cluster, p *corev1.Pod) {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}
			p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
		}),
		cause.QuotaExceeded: func(_ *testing.T, c *cluster, _ cause.Code) facts.Target {
			c.event("ReplicaSet", "team", "train-5d9c", "FailedCreate", `pods "train-5d9c-abcde" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=4`)
			return ofTrain()
		},
		cause.RuntimeClassMissing: waits(one, func(_ *cluster, p *corev1.Pod) { p.Spec.RuntimeClassName = new("nvida") }),
		cause.RuntimeClassWrong: runs(func(c *cluster, p *corev1.Pod) {
			p.Spec.RuntimeClassName = new("gvisor")
			c.RuntimeClasses = append(c.RuntimeClasses, &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc"})
		}),
		cause.NoGPURequested: runs(func(_ *cluster, p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = nil }),
		cause.GPUsHidden: runs(func(_ *cluster, p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "void"}}
		}),
		cause.NodeOptedOut: func(_ *testing.T, c *cluster, _ cause.Code) facts.Target {
			c.unready(node, cause.PluginNotReady)
			c.node(node).Labels["nvidia.com/gpu.deploy.operands"] = "false"
			return onNode()
		},
		cause.NodePaused: func(_ *testing.T, c *cluster, _ cause.Code) facts.Target {
			c.unready(node, cause.PluginNotReady)
			c.node(node).Labels["nvidia.com/gpu.deploy.device-plugin"] = "paused-for-mig-change"
			return onNode()
		},
		cause.AgentMissing: func(_ *testing.T, c *cluster, _ cause.Code) facts.Target {
			c.unready(node, cause.ToolkitNotReady)
			c.node(node).CreationTimestamp = ago(time.Hour)
			c.node(node).Spec.Taints = []corev1.Taint{{Key: "team", Value: "red", Effect: corev1.TaintEffectNoSchedule}}
			c.remove(facts.ContainerToolkit, node)
			return onNode()
		},
	}
}

func (c *cluster) remove(agent, on string) {
	for i, p := range c.Pods {
		if p.Name == agent+"-"+on {
			c.Pods = append(c.Pods[:i], c.Pods[i+1:]...)
			return
		}
	}
}

// TestEvidenceOfRequests has the parts of the evidence that a person needs to act.
func TestEvidenceOfRequests(t *testing.T) {
	for code, want := range map[cause.Code][]string{
		cause.ResourceUnknown:       {"1 nvidia.com/gpus", "did you mean nvidia.com/gpu?", "offers nvidia.com/gpu"},
		cause.ResourceShared:        {"1 nvidia.com/gpu", "nvidia.com/gpu.shared"},
		cause.MIGProfileMissing:     {"nvidia.com/mig-3g.40gb", "nvidia.com/mig-1g.10gb", "no GPU of the cluster supports MIG"},
		cause.RequestTooLarge:       {"9 nvidia.com/gpu", "has 8"},
		cause.SharedRequestTooLarge: {"found 2"},
		cause.NodesNotSelected:      {"n1", "nvidia.com/gpu.product=H100"},
		cause.TaintNotTolerated:     {"n1", "team=red:NoSchedule"},
		cause.NodeCordoned:          {"n1"},
		cause.NodesNotUsable:        {"n1 has ToolkitNotReady"},
		cause.GPUsExhausted:         {"team/other has 8 since"},
		cause.SchedulingGated:       {"kueue.x-k8s.io/admission"},
		cause.QuotaExceeded:         {"exceeded quota: gpus"},
		cause.RuntimeClassMissing:   {"nvida", "has nvidia"},
		cause.RuntimeClassWrong:     {"gvisor", "runsc"},
		cause.NoGPURequested:        {"no container", "nvidia.com/*"},
		cause.GPUsHidden:            {"container main", "NVIDIA_VISIBLE_DEVICES=void"},
		cause.NodeOptedOut:          {"nvidia.com/gpu.deploy.operands=false"},
		cause.NodePaused:            {"nvidia.com/gpu.deploy.device-plugin=paused-for-mig-change"},
		cause.AgentMissing:          {"gpu-operator-resources/nvidia-container-toolkit", "team=red:NoSchedule"},
	} {
		t.Run(string(code), func(t *testing.T) {
			c := healthy(node)
			r := doctor.Diagnose(c.Facts, requests()[code](t, c, code))
			for _, part := range want {
				if !strings.Contains(r.Findings[0].Evidence, part) {
					t.Errorf("no %q in: %s", part, r.Findings[0].Evidence)
				}
			}
		})
	}
}

// TestEachNodeHasItsReason has a pod that each node refuses for another reason.
func TestEachNodeHasItsReason(t *testing.T) {
	c := healthy("full", "cordoned", "tainted", "other", "small", "broken")
	p := c.user("train", "", map[string]int64{gpu: 4})
	c.user("job", "full", map[string]int64{gpu: 6})
	c.node("cordoned").Spec.Unschedulable = true
	c.node("tainted").Spec.Taints = []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}, {Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}}
	c.node("other").Labels["pool"] = "b"
	offer(c.node("small"), gpu, 2, 2)
	c.unready("broken", cause.DriverHangs)
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpDoesNotExist}}}},
	}}}
	r := doctor.Diagnose(c.Facts, ofTrain())
	got := map[cause.Code]string{}
	for _, f := range r.Findings {
		got[f.Code] = strings.Join(f.Examples, ",")
	}
	want := map[cause.Code]string{
		cause.GPUsExhausted: "full", cause.NodesNotUsable: "broken", cause.NodeCordoned: "cordoned", cause.TaintNotTolerated: "tainted", cause.NodesNotSelected: "other",
	}
	if !maps.Equal(got, want) || r.Findings[0].Code != cause.GPUsExhausted {
		t.Errorf("want %v, got:\n%s", want, text(r))
	}
	// A toleration, and a pod that is gone.
	p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
	r = doctor.Diagnose(c.Facts, ofTrain())
	for _, f := range r.Findings {
		if f.Code == cause.TaintNotTolerated {
			t.Errorf("the taint is tolerated:\n%s", text(r))
		}
	}
}

// TestTheErrorOfTheDevicePlugin finds the text that doctor knows in the device plugin.
func TestTheErrorOfTheDevicePlugin(t *testing.T) {
	source, err := os.ReadFile("../../../agents/device-plugin/internal/allocate/allocate.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), "maximum request size for shared resources is 1") {
		t.Error("the device plugin has another text")
	}
}

// TestFixesOfUsers has pods of users, for which the values of our chart are no fix.
func TestFixesOfUsers(t *testing.T) {
	for _, code := range []cause.Code{
		cause.ImagePullBackOff, cause.InvalidImageName, cause.ErrImageNeverPull, cause.OOMKilled, cause.CreateContainerConfigError, cause.CreateContainerError,
		cause.RunContainerError, cause.CrashLoopBackOff,
	} {
		t.Run(string(code), func(t *testing.T) {
			c := healthy(node)
			p := c.user("train", node, map[string]int64{gpu: 1})
			p.Status.Phase = corev1.PodPending
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: string(code), Message: "it is so"}}}}
			r := doctor.Diagnose(c.Facts, ofTrain())
			if len(r.Findings) != 1 || r.Findings[0].Code != code || strings.Contains(r.Findings[0].Fix, "values") || strings.Contains(r.Findings[0].Fix, "NAMESPACE") {
				t.Errorf("\n%s", text(r))
			}
		})
	}
}

// TestARuntimeClassThatIsMissing has pods in each state whose RuntimeClass was not among those that were read.
func TestARuntimeClassThatIsMissing(t *testing.T) {
	const missing = cause.RuntimeClassMissing
	forbidden := facts.Unseen{What: "RuntimeClasses", Why: "forbidden"}
	for name, tc := range map[string]struct {
		on     string
		reason cause.Code
		phase  corev1.PodPhase
		unseen []facts.Unseen
		want   cause.Code
	}{
		"a pod without a node":                               {"", "", corev1.PodPending, nil, missing},
		"a pod without a node, and Events are not seen":      {"", "", corev1.PodPending, []facts.Unseen{{What: "Events of nodes", Why: "forbidden"}}, missing},
		"a pod without a node, and no right":                 {"", "", corev1.PodPending, []facts.Unseen{forbidden}, cause.Unschedulable},
		"a sandbox waits":                                    {node, "", corev1.PodPending, nil, missing},
		"a sandbox waits, and no right":                      {node, cause.ContainerCreating, corev1.PodPending, []facts.Unseen{forbidden}, cause.ContainerCreating},
		"a sandbox waits, and the archive has no classes":    {node, cause.ContainerCreating, corev1.PodPending, []facts.Unseen{{What: "the file a/runtimeclasses.yaml", Why: "it is damaged"}}, cause.ContainerCreating},
		"containers wait":                                    {node, cause.ContainerCreating, corev1.PodPending, nil, missing},
		"an image is missing":                                {node, cause.ImagePullBackOff, corev1.PodPending, nil, cause.ImagePullBackOff},
		"an image is missing, and no right":                  {node, cause.ImagePullBackOff, corev1.PodPending, []facts.Unseen{forbidden}, cause.ImagePullBackOff},
		"it runs, and the class was deleted":                 {node, "", corev1.PodRunning, nil, missing},
		"it runs, and no right":                              {node, "", corev1.PodRunning, []facts.Unseen{forbidden}, ""},
		"it runs, and all classes were left out of archives": {node, "", corev1.PodRunning, []facts.Unseen{{What: "2 of 2 RuntimeClasses", Why: "no room"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := healthy(node)
			c.RuntimeClasses, c.Unseen = nil, tc.unseen
			p := c.user("train", tc.on, map[string]int64{gpu: 1})
			p.Spec.RuntimeClassName, p.Status.Phase = new("nvidia"), tc.phase
			if tc.reason != "" {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: string(tc.reason)}}}}
			}
			r := doctor.Diagnose(c.Facts, ofTrain())
			if got := append(r.Findings, doctor.Finding{})[0].Code; got != tc.want {
				t.Errorf("want %q, got:\n%s", tc.want, text(r))
			}
		})
	}
}
