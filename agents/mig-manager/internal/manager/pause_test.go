package manager_test

import (
	"context"
	"strconv"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/procowner"
)

// deployClient is a label that DaemonSets of other programs select.
const deployClient = "nvidia.com/gpu.deploy.client"

// labels sets a label of the Node, as feature discovery does.
func (n *node) labels(key, value string) {
	n.Helper()
	n.patch(kube.Operation{Op: "add", Path: kube.LabelPath(key), Value: []byte(strconv.Quote(value))})
}

func (n *node) patch(op kube.Operation) {
	n.Helper()
	assert.NilError(n, n.admin.Patch(n.Context(), n.admin.Node(), []kube.Operation{op}, nil))
}

// testsDaemonSetsArePaused: a pod of a DaemonSet holds the GPU, and its kubelet ends it after the label has changed. Then an
// agent is killed in the pause.
func (n *node) testsDaemonSetsArePaused() {
	n.cfg.Stays = func(context.Context, procowner.Pod) bool { return true }
	n.ask("all-disabled")
	n.labels(deployClient, "true")
	stop := n.start()
	n.succeeds()
	n.set(func() { n.users = []mig.Holder{holds("default", "monitor-0")} })
	n.ask("all-balanced")
	n.until("paused", func(s shown) bool { return s.Metadata.Labels[deployClient] == "paused-for-mig-change" })
	if done := n.seen(&n.log); len(done) > 1 {
		n.Errorf("while the pod holds the GPU, the agent did %v", done)
	}
	n.set(func() { n.users = nil })
	resumed := func(s shown) bool { return s.Metadata.Labels[deployClient] == "true" && s.state() == manager.Success }
	n.until("changed, with its DaemonSets", resumed)
	stop()

	n.labels(deployClient, "paused-for-mig-change")
	n.patch(kube.Operation{Op: "add", Path: "/metadata/annotations", Value: []byte(`{"` + manager.PausedAnnotation + `": "all-balanced"}`)})
	stop = n.start()
	n.until("resumed after a crash", func(s shown) bool { return resumed(s) && s.Metadata.Annotations[manager.PausedAnnotation] == "" })
	stop()
}

// testsPodsAreEvictedBeforeAPause: a pod of a DaemonSet and another pod hold GPUs.
func (n *node) testsPodsAreEvictedBeforeAPause() {
	n.cfg.Options.Policy = manager.EvictPods
	n.cfg.Stays = func(_ context.Context, p procowner.Pod) bool { return p.Name == "monitor-0" }
	n.ask("all-balanced")
	n.labels(deployClient, "true")
	const namespace = "of-tenant"
	n.pod(namespace, "monitor-0")
	n.pod(namespace, "train-0")
	n.set(func() { n.users = []mig.Holder{holds(namespace, "monitor-0"), holds(namespace, "train-0")} })
	stop := n.start()
	exists := func(name string) bool {
		var p struct{}
		return n.admin.Get(n.Context(), kube.Object{API: "v1", Resource: "pods", Namespace: namespace, Name: name}, &p) == nil
	}
	n.until("cordoned and train-0 evicted", func(s shown) bool {
		return s.Spec.Unschedulable && s.Metadata.Labels[deployClient] == "true" && !exists("train-0")
	})
	n.set(func() { n.users = []mig.Holder{holds(namespace, "monitor-0")} })
	n.until("paused", func(s shown) bool {
		return s.Spec.Unschedulable && s.Metadata.Labels[deployClient] == "paused-for-mig-change"
	})
	if !exists("monitor-0") {
		n.Error("the agent evicted a pod that comes back")
	}
	n.set(func() { n.users = nil })
	if s := n.succeeds(); s.Metadata.Labels[deployClient] != "true" {
		n.Errorf("the node is left as %+v", s)
	}
	stop()
}
