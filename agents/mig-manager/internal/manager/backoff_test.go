package manager_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/agents/mig-manager/internal/users"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/podresources/podresourcestest"
)

// running are units of which none can be stopped.
type running struct{ *node }

func (r running) Stop(context.Context) error {
	r.did("stop")
	return errors.New("stop nvsm.service: it has failed")
}

// TestUnitsAreNotStoppedAtEachLook: neither those that do not stop, nor those that use the GPU again
// at once.
func TestUnitsAreNotStoppedAtEachLook(t *testing.T) {
	for name, tc := range map[string]struct {
		units func(*node) manager.Units
		fails error
		state manager.State
		cause string
	}{
		"a unit that does not stop": {units: func(n *node) manager.Units { return running{n} }, state: manager.Failed, cause: "stop nvsm.service"},
		"a unit that is back": {
			units: func(n *node) manager.Units { return n }, fails: &apply.InUse{Holders: []mig.Holder{ofUnit()}},
			state: manager.Pending, cause: "process 42 of nvsm.service",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeOn(t, apitest.New(t, map[string]string{manager.ConfigLabel: "all-balanced"}))
			n.cfg.Units, n.cfg.OfHost, n.fails = tc.units(n), func(unit string) bool { return unit == "nvsm.service" }, tc.fails
			n.cfg.Retry = pace.Backoff{First: time.Minute, Most: time.Hour}
			n.start()
			n.until("published", func(s shown) bool { return s.state() == tc.state && strings.Contains(s.cause(), tc.cause) })
			pace.Pause(t.Context(), 20*n.cfg.Options.Poll)
			if got := n.count("stop"); got != 1 {
				t.Errorf("units were stopped %d times in 20 looks, want once before the pause", got)
			}
			if n.count("start") != n.count("apply") {
				t.Errorf("done: %v, want units to run after each attempt", n.seen(&n.log))
			}
		})
	}
}

// held is a node whose change is of the GPU that the kubelet has allocated.
type held struct {
	*node
	finder *users.Finder
	gpu    mig.GPU
}

func (h held) Plan(ctx context.Context, req apply.Request) (apply.Plan, error) {
	p, err := h.node.Plan(ctx, req)
	for i := range p.GPUs {
		by, unknown := h.finder.Held(ctx, []mig.GPU{h.gpu})
		p.GPUs[i].Holders, p.Unknown = by[h.gpu.UUID], unknown
	}
	return p, err
}

// testsAStaticPodIsNotEvicted: the kubelet would run it again. Users are those that the kubelet and
// the API server know.
func (n *node) testsAStaticPodIsNotEvicted() {
	gpus := gputest.Node(gputest.H100, 1)
	n.cfg.Options.Policy = manager.EvictPods
	n.create("v1", "pods", "of-static", map[string]any{
		"kind": "Pod", "metadata": map[string]any{"name": "probe-static", "annotations": map[string]string{
			"kubernetes.io/config.mirror": "9f3c", "kubernetes.io/config.source": "file",
		}},
		"spec": map[string]any{
			"nodeName": "static", "terminationGracePeriodSeconds": 0,
			"containers": []any{map[string]any{"name": "main", "image": "image"}},
		},
	})
	socket := filepath.Join(n.TempDir(), "kubelet.sock")
	podresourcestest.Start(n.T, socket).Set(podresourcestest.Pod("of-static", "probe-static", podresourcestest.Container("main", "nvidia.com/gpu", string(gpus.GPUs[0].UUID))))
	kubelet, err := podresources.New(podresources.Config{Socket: socket})
	assert.NilError(n, err)
	n.Cleanup(func() { _ = kubelet.Close() })
	finder := &users.Finder{Source: gputest.New(gpus), Kubelet: kubelet, Client: n.cfg.Client}
	n.cfg.GPUs, n.cfg.Stays = held{n, finder, mig.GPU{UUID: gpus.GPUs[0].UUID}}, finder.Stays
	n.ask("all-balanced")
	n.start()
	s := n.until("pending", func(s shown) bool {
		return s.state() == manager.Pending && strings.Contains(s.cause(), "of-static/probe-static") && strings.Contains(s.cause(), "static manifest")
	})
	pace.Pause(n.Context(), 10*n.cfg.Options.Poll)
	var pod struct{}
	if err := n.admin.Get(n.Context(), kube.Object{API: "v1", Resource: "pods", Namespace: "of-static", Name: "probe-static"}, &pod); err != nil || s.Spec.Unschedulable {
		n.Errorf("a static pod was evicted (%v), or the node cordoned for it: %+v", err, s)
	}
}
