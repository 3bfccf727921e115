package validation_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/validation"
)

const unschedulable = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) didn't match Pod's node affinity/selector."

func TestOneNodeHasOnePodOfTheChecksName(t *testing.T) {
	k := newCluster(check(t, driver, "1"), 3)
	k.next()
	if diff := cmp.Diff([]string{driver}, k.created); diff != "" {
		t.Fatalf("created (-want +got):\n%s", diff)
	}
	k.next()
	k.wants(t, validation.Running, "pod "+driver+" is Pending")
	k.rests(t)
	k.ends("Succeeded", "Completed", "")
	k.next()
	k.wants(t, validation.Passed)
	if k.status.Passed != 1 || k.status.Revision != "run1" || k.status.Time == nil || k.again != 0 {
		t.Errorf("status %+v, again %s", k.status, k.again)
	}
	k.rests(t)
	if len(k.Pods) != 1 {
		t.Error("the pod is gone, and its log with it")
	}
}

func TestTheDriverPodIsBoundToItsNode(t *testing.T) {
	k := newCluster(check(t, driver, "1"), 3)
	k.node("a0").GPUReady, k.node("a2").GPUReady = "False", "False"
	_, create, _, _ := validation.Next(k.check, k.State, k.status)
	if node, _, _ := unstructured.NestedString(create[0].Object, "spec", "nodeName"); node != "a1" {
		t.Errorf("it is bound to %q, want the healthy node a1", node)
	}
	if create[0].GetKind() != "Pod" || create[0].GetAPIVersion() != "v1" || create[0].GetNamespace() != ns {
		t.Errorf("it creates %v", create[0].Object)
	}
	if _, changed, _ := unstructured.NestedString(k.check.Template.Object, "template", "spec", "nodeName"); changed {
		t.Error("the template has changed")
	}
}

func TestThePluginPodGoesThroughTheScheduler(t *testing.T) {
	for nodes, want := range map[string]int{"1": 3, "all": 1} {
		t.Run(nodes, func(t *testing.T) {
			k := newCluster(check(t, plugin, nodes), 4)
			k.node("a3").Labels["nvidia.com/gpu.deploy.device-plugin"] = "false"
			_, create, _, _ := validation.Next(k.check, k.State, k.status)
			spec := create[0].Object["spec"].(map[string]any)
			if spec["nodeName"] != nil {
				t.Error("it is bound to a node, past the scheduler")
			}
			terms, _, err := unstructured.NestedSlice(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
			if err != nil || len(terms) != want {
				t.Errorf("%d nodes to choose from, want %d: %v", len(terms), want, err)
			}
		})
	}
}

func TestNoFreeGPUIsSkippedAndNotFailed(t *testing.T) {
	k := newCluster(check(t, plugin, "1"), 3)
	k.next()
	p := k.pod(t, plugin)
	p.Reason, p.Message = "Unschedulable", unschedulable
	k.Now = k.Now.Add(5 * time.Second)
	k.next()
	k.wants(t, validation.Running, "Insufficient nvidia.com/gpu")
	if k.again != 25*time.Second {
		t.Errorf("it looks again after %s", k.again)
	}
	k.Now = k.Now.Add(25 * time.Second)
	k.next()
	k.wants(t, validation.Skipped, "no free nvidia.com/gpu", "pods use all of them")
	if !slices.Equal(k.removed, []string{plugin}) || k.status.Skipped != 1 || k.status.Failed != 0 {
		t.Errorf("removes %v, status %+v", k.removed, k.status)
	}
	k.rests(t)
	if k.again != 10*time.Minute {
		t.Errorf("it is repeated after %s", k.again)
	}
	k.Now = k.Now.Add(10 * time.Minute)
	k.next()
	if !slices.Equal(k.created, []string{plugin}) {
		t.Errorf("it is not repeated: %+v", k.status)
	}
}

func TestAPluginWithoutAGPUFails(t *testing.T) {
	k := newCluster(check(t, plugin, "1"), 1)
	k.node("a0").Allocatable = nil
	k.next()
	p := k.pod(t, plugin)
	p.Reason, p.Message = "Unschedulable", unschedulable
	k.Now = k.Now.Add(k.check.Timeout)
	k.next()
	k.wants(t, validation.Failed, "not ended after 5m0s", "no ready node offers nvidia.com/gpu", "log of the device plugin")
}

func TestAFailureNamesTheCauseAndTheFix(t *testing.T) {
	const line = "vectoradd: cuInit: CUDA_ERROR_NO_DEVICE (100): no device: load the driver"
	tests := map[string]struct {
		phase, reason, message string
		wait                   time.Duration
		state                  string
		want                   []string
	}{
		"the program fails":      {"Failed", "Error", "[Vector addition of 50000 elements]\n" + line + "\n", 0, validation.Failed, []string{"node a0: " + line}},
		"a long message":         {"Failed", "Error", fmt.Sprintf("%01000d", 0), 0, validation.Failed, []string{"node a0: 000"}},
		"no message":             {"Failed", "Error", "", 0, validation.Failed, []string{"node a0: Error", "kubectl -n gpu-operator-resources describe pod " + driver}},
		"no image in time":       {"Pending", "ImagePullBackOff", `Back-off pulling image "x"`, 5 * time.Minute, validation.Failed, []string{"node a0", "5m0s", "ImagePullBackOff", "imagePullSecrets"}},
		"no image yet":           {"Pending", "ImagePullBackOff", `Back-off pulling image "x"`, time.Minute, validation.Running, []string{"node a0: ImagePullBackOff"}},
		"the kubelet's deadline": {"Failed", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline", 0, validation.Failed, []string{"DeadlineExceeded", "describe pod"}},
		"no such device":         {"Pending", "CreateContainerError", "unresolvable CDI devices", 6 * time.Minute, validation.Failed, []string{"log of the container toolkit"}},
		"evicted":                {"Failed", "Evicted", "The node was low on resource: memory.", 0, validation.Skipped, []string{"Evicted", "low on resource"}},
		"no room on the node":    {"Failed", "OutOfcpu", "Node didn't have enough resource: cpu", 0, validation.Skipped, []string{"OutOfcpu"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			k := newCluster(check(t, driver, "1"), 1)
			k.next()
			p := k.pod(t, driver)
			p.Phase, p.Reason, p.Message = tc.phase, tc.reason, tc.message
			k.Now = k.Now.Add(tc.wait)
			k.next()
			k.wants(t, tc.state, tc.want...)
			if len(k.status.Message) > 600 || len(k.Pods) != 1 {
				t.Errorf("%d bytes, %d pods", len(k.status.Message), len(k.Pods))
			}
		})
	}
}

func TestAFailedRunIsRepeated(t *testing.T) {
	k := newCluster(check(t, driver, "1"), 1)
	k.next()
	k.ends("Failed", "Error", "no driver")
	k.next()
	k.wants(t, validation.Failed)
	k.rests(t)
	k.Now = k.Now.Add(k.again)
	k.next()
	k.wants(t, validation.Running)
	if !slices.Equal(k.removed, []string{driver}) {
		t.Errorf("it removes %v", k.removed)
	}
	k.next()
	k.ends("Succeeded", "Completed", "")
	k.next()
	k.wants(t, validation.Passed)
	k.rests(t)
}

// A node on which CUDA does not work must not stop the roll-out of all others for ever.
func TestARepeatedRunMeetsAnotherNode(t *testing.T) {
	k := newCluster(check(t, driver, "1"), 8)
	met := map[string]bool{}
	for range 6 {
		k.next()
		met[k.pod(t, driver).Node] = true
		k.ends("Failed", "Error", "no driver")
		k.next()
		k.wants(t, validation.Failed)
		k.Now = k.Now.Add(k.again)
		// Removes the pod that failed; the next one starts once it is gone.
		k.next()
	}
	if len(met) < 2 {
		t.Errorf("six runs met only %v", met)
	}
}

func TestAChangeRepeatsTheCheck(t *testing.T) {
	for _, nodes := range []string{"1", "50%", "all"} {
		t.Run(nodes, func(t *testing.T) {
			k := newCluster(check(t, driver, nodes), 4)
			k.next()
			first := k.created
			k.ends("Succeeded", "Completed", "")
			k.next()
			k.wants(t, validation.Passed)
			k.check.Revision = "run2"
			k.next()
			k.wants(t, validation.Running)
			slices.Sort(first)
			if slices.Sort(k.removed); !slices.Equal(first, k.removed) {
				t.Errorf("it removes %v, want %v", k.removed, first)
			}
			k.next()
			k.ends("Succeeded", "Completed", "")
			k.next()
			k.wants(t, validation.Passed)
			if k.status.Revision != "run2" || k.status.Passed != len(first) {
				t.Errorf("%+v", k.status)
			}
		})
	}
}

func TestAPodOfAnEarlierRunEndsFirst(t *testing.T) {
	k := newCluster(check(t, driver, "1"), 1)
	k.next()
	k.pod(t, driver).Deleting = true
	k.check.Revision = "run2"
	k.next()
	if len(k.created)+len(k.removed) > 0 {
		t.Errorf("while it ends, it creates %v and removes %v", k.created, k.removed)
	}
	k.wants(t, validation.Running)
}
