package observe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/model"
)

var created = metav1.NewTime(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))

// readied is a moment ago.
var readied = metav1.Now()

func testPod(change func(*corev1.Pod)) *corev1.Pod {
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "agents", Name: "p", CreationTimestamp: created,
		OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "ds", Controller: &yes}},
	}}
	p.Spec.NodeName = "n1"
	p.Status.Phase = corev1.PodRunning
	change(p)
	return p
}

func ready(status corev1.ConditionStatus) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: corev1.PodReady, Status: status, Message: "containers are not ready"}}
}

// crashed returns the status of a container that runs again, after it had ended that often. Its last
// run began an hour after the pod.
func crashed(restarts int32, run time.Duration) []corev1.ContainerStatus {
	start := created.Add(time.Hour)
	return []corev1.ContainerStatus{{
		RestartCount: restarts,
		State:        corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(created.Add(2 * time.Hour))}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 1, Message: "no driver", StartedAt: metav1.NewTime(start), FinishedAt: metav1.NewTime(start.Add(run)),
		}},
	}}
}

func TestPod(t *testing.T) {
	kept := model.Pod{Namespace: "agents", Name: "p", Node: "n1", Owner: "ds", Phase: "Running", Since: created.UTC()}
	cases := map[string]struct {
		change func(*corev1.Pod)
		want   func(*model.Pod)
		drop   bool
	}{
		"a ready pod is not kept": {change: func(p *corev1.Pod) { p.Status.Conditions = ready(corev1.ConditionTrue) }, drop: true},
		"a pod of nobody is not kept": {
			change: func(p *corev1.Pod) { p.OwnerReferences = nil }, drop: true,
		},
		"a pod of a ReplicaSet is not kept": {
			change: func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" }, drop: true,
		},
		"a pod that is not ready": {
			change: func(p *corev1.Pod) { p.Status.Conditions = ready(corev1.ConditionFalse) },
			want:   func(p *model.Pod) { p.Reason, p.Message = "NotReady", "containers are not ready" },
		},
		"a pod that has stopped being ready": {
			change: func(p *corev1.Pod) {
				p.Status.Conditions = ready(corev1.ConditionFalse)
				p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(created.Add(time.Hour))
			},
			want: func(p *model.Pod) {
				p.Reason, p.Message, p.Since = "NotReady", "containers are not ready", created.UTC().Add(time.Hour)
			},
		},
		"a pod that became ready only now": {
			change: func(p *corev1.Pod) {
				p.Status.Conditions = ready(corev1.ConditionTrue)
				p.Status.Conditions[0].LastTransitionTime = readied
			},
			want: func(p *model.Pod) { p.Ready, p.Since = true, readied.UTC() },
		},
		"a ready pod that is being deleted": {
			change: func(p *corev1.Pod) { p.Status.Conditions, p.DeletionTimestamp = ready(corev1.ConditionTrue), &created },
			want:   func(p *model.Pod) { p.Deleting = true },
		},
		"a pod that no node takes": {
			change: func(p *corev1.Pod) {
				p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no room"}}
			},
			want: func(p *model.Pod) { p.Node, p.Phase, p.Reason, p.Message = "", "Pending", "Unschedulable", "no room" },
		},
		"an image that does not exist": {
			change: func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"},
				}}}
			},
			want: func(p *model.Pod) { p.Reason, p.Message = "ImagePullBackOff", "not found" },
		},
		"an agent that crashes says why in its own words": {
			change: func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{
					State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s"}},
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no driver\n"}},
				}}
			},
			want: func(p *model.Pod) { p.Reason, p.Message = "CrashLoopBackOff", "no driver" },
		},
		"a pod whose deletion began while it was ready": {
			change: func(p *corev1.Pod) {
				p.Status.Conditions = ready(corev1.ConditionTrue)
				at := metav1.NewTime(created.Add(time.Hour))
				p.DeletionTimestamp = &at
			},
			want: func(p *model.Pod) { p.Deleting, p.Since = true, created.UTC().Add(time.Hour) },
		},
		"a container that runs between two crashes": {
			change: func(p *corev1.Pod) {
				p.Status.Conditions, p.Status.ContainerStatuses = ready(corev1.ConditionTrue), crashed(2, time.Minute)
			},
			want: func(p *model.Pod) {
				p.Ready, p.Loops, p.Message = true, created.UTC().Add(2*time.Hour+loopEnd), "no driver"
			},
		},
		"a container that ended once is not kept": {
			change: func(p *corev1.Pod) {
				p.Status.Conditions, p.Status.ContainerStatuses = ready(corev1.ConditionTrue), crashed(1, time.Minute)
			},
			drop: true,
		},
		"a container that ended after it had run for long is not kept": {
			change: func(p *corev1.Pod) {
				p.Status.Conditions, p.Status.ContainerStatuses = ready(corev1.ConditionTrue), crashed(5, time.Hour)
			},
			drop: true,
		},
		"a validation that has passed is kept": {
			change: func(p *corev1.Pod) {
				p.OwnerReferences, p.Status.Phase = nil, corev1.PodSucceeded
				p.Labels = map[string]string{"outrigger.dev/validation": "proof", "outrigger.dev/of": "abc"}
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", Message: "Test PASSED"},
				}}}
			},
			want: func(p *model.Pod) {
				p.Owner, p.Revision, p.Phase, p.Reason, p.Message = "proof", "abc", "Succeeded", "Completed", "Test PASSED"
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := PodOf(testPod(c.change))
			if kept := got != nil; kept == c.drop {
				t.Fatalf("kept: %t", kept)
			}
			want := kept
			if c.drop {
				return
			}
			c.want(&want)
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNode(t *testing.T) {
	in := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", CreationTimestamp: created, Labels: map[string]string{
		"nvidia.com/gpu.present": "true", "kubernetes.io/hostname": "n1", "pool": "a",
	}}}
	in.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
		{Type: "GPUReady", Status: corev1.ConditionFalse, Reason: "DriverMissing", Message: "no driver", LastTransitionTime: created},
	}
	in.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("9")}
	in.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8"), "cpu": resource.MustParse("2")}
	want := &model.Node{
		Name: "n1", Labels: in.Labels, Schedulable: true,
		GPUReady: "False", Reason: "DriverMissing", Message: "no driver", Since: created.UTC(), Allocatable: map[string]int64{"nvidia.com/gpu": 8},
		Capacity: map[string]int64{"nvidia.com/gpu": 9},
	}
	if diff := cmp.Diff(want, NodeOf(in)); diff != "" {
		t.Error(diff)
	}
}

// The API does not say since when a node offers fewer GPUs than it has.
func TestCarryShort(t *testing.T) {
	node := func(offered int64, since time.Time) *model.Node {
		return &model.Node{Allocatable: map[string]int64{"nvidia.com/gpu": offered}, Capacity: map[string]int64{"nvidia.com/gpu": 8}, ShortSince: since}
	}
	now := node(7, time.Time{})
	carryShort(node(8, time.Time{}), now)
	if now.ShortSince.IsZero() {
		t.Error("a GPU that was lost has no time")
	}
	now = node(6, time.Time{})
	carryShort(node(7, created.UTC()), now)
	if !now.ShortSince.Equal(created.UTC()) {
		t.Errorf("the next GPU changed the time to %s", now.ShortSince)
	}
	now = node(8, time.Time{})
	carryShort(node(7, created.UTC()), now)
	if !now.ShortSince.IsZero() {
		t.Errorf("with all GPUs, the time is %s", now.ShortSince)
	}
}
