package manager_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
)

// testsNothingIsLeft: an agent that is uninstalled takes back what it has published, also the
// cordon of a predecessor that was killed, and nothing of others.
func (n *node) testsNothingIsLeft() {
	n.ask("all-balanced")
	stop := n.start()
	n.succeeds()
	n.users = []mig.Holder{holds("default", "train-0")}
	n.ask("all-disabled")
	n.until("pending", func(s shown) bool { return strings.Contains(s.cause(), "train-0") })
	stop()
	assert.NilError(n, n.admin.Patch(n.Context(), n.admin.Node(), []kube.Operation{
		{Op: "add", Path: "/spec/unschedulable", Value: []byte("true")},
		{Op: "add", Path: kube.AnnotationPath(manager.CordonedAnnotation), Value: []byte(`"all-disabled"`)},
		{Op: "add", Path: kube.AnnotationPath("of.others/note"), Value: []byte(`"1"`)},
		{Op: "add", Path: kube.AnnotationPath(manager.PausedAnnotation), Value: []byte(`"all-disabled"`)},
		{Op: "add", Path: kube.LabelPath("nvidia.com/gpu.deploy.client"), Value: []byte(`"paused-for-mig-change"`)},
	}, nil))
	m := manager.New(n.cfg)
	for range 2 { // the second time there is nothing to do
		assert.NilError(n, m.Withdraw(n.Context()))
	}
	s := n.until("clean", func(shown) bool { return true })
	if s.state() != "" || s.cause() != "" || s.Spec.Unschedulable || len(s.Metadata.Annotations) != 1 || s.Metadata.Labels["nvidia.com/gpu.deploy.client"] != "true" || s.Metadata.Labels[manager.ConfigLabel] != "all-disabled" {
		n.Errorf("the node is left as %+v", s)
	}
	if f := n.cfg.Contract.Read(contract.MIGReady); f.State != contract.Missing {
		n.Errorf("the fact mig-ready is %s", f.State)
	}
}

// testsACordonOfOthersStays: the node was cordoned by somebody else.
func (n *node) testsACordonOfOthersStays() {
	n.ask("all-disabled")
	stop := n.start()
	n.succeeds()
	stop()
	assert.NilError(n, n.admin.Patch(n.Context(), n.admin.Node(), []kube.Operation{{Op: "add", Path: "/spec/unschedulable", Value: []byte("true")}}, nil))
	assert.NilError(n, manager.New(n.cfg).Withdraw(n.Context()))
	if s := n.until("read", func(shown) bool { return true }); !s.Spec.Unschedulable || s.state() != "" {
		n.Errorf("the node is left as %+v", s)
	}
}

// TestWhatIsLeftIsNamed: the rights went with the agent. The fact goes nevertheless.
func TestWhatIsLeftIsNamed(t *testing.T) {
	api := apitest.New(t, map[string]string{manager.ConfigLabel: "all-disabled"})
	n := nodeOn(t, api)
	stop := n.start()
	n.succeeds()
	stop()
	api.Forbid("patch nodes")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := manager.New(n.cfg).Withdraw(ctx)
	if err == nil || !strings.Contains(err.Error(), manager.StateLabel) || !strings.Contains(err.Error(), manager.CauseAnnotation) {
		t.Errorf("Withdraw() = %v, want what is left", err)
	}
	if f := n.cfg.Contract.Read(contract.MIGReady); f.State != contract.Missing {
		t.Errorf("the fact mig-ready is %s", f.State)
	}
}
