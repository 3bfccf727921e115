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
	op := kube.Operation{Op: "add", Path: kube.LabelPath(key), Value: []byte(strconv.Quote(value))}
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
	stop = n.start()
	n.until("resumed after a crash", resumed)
	stop()
}
