package manager

import (
	"context"
	"strings"
	"testing"
	"time"

	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube/apitest"
	"outrigger.dev/pkg/procowner"
)

// TestAPauseIsLimited: a pod whose DaemonSet selects no paused label holds a GPU, in the time of a test clock.
func TestAPauseIsLimited(t *testing.T) {
	monitor := func(n int) mig.Holder {
		u := pod(n)
		u.Pod.Name = "monitor" + u.Pod.Name
		return u
	}
	one := func(int) []mig.Holder { return []mig.Holder{monitor(1)} }
	for name, tc := range map[string]struct {
		users, busy func(n int) []mig.Holder
		evict       bool
		// then is a change after half of the time.
		then   func(*hour)
		pauses int
	}{
		"the same pod":                      {users: one, pauses: 1},
		"only attempts find it":             {users: none, busy: one, pauses: 1},
		"another pod later":                 {users: one, pauses: 2, then: func(h *hour) { h.users = func(int) []mig.Holder { return []mig.Holder{monitor(2)} } }},
		"another config later":              {users: one, pauses: 2, then: func(h *hour) { h.labels(ConfigLabel, "all-disabled") }},
		"a new process":                     {users: one, pauses: 2, then: func(h *hour) { h.Manager = h.again() }},
		"another pod is evicted before":     {users: func(n int) []mig.Holder { return []mig.Holder{monitor(1), pod(1)}[:max(1, 3-n)] }, evict: true, pauses: 1},
		"another DaemonSet leaves and back": {users: func(n int) []mig.Holder { return []mig.Holder{monitor(1), monitor(n)}[:1+n%2] }, pauses: 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHour(t)
			h.labels("nvidia.com/gpu.deploy.client", "true")
			h.cfg.Stays = func(_ context.Context, p procowner.Pod) bool { return strings.HasPrefix(p.Name, "monitor") }
			if h.users = tc.users; tc.busy != nil {
				h.busy = tc.busy
			}
			if tc.evict {
				h.cfg.Options.Policy = EvictPods
			}
			pauses, paused := 0, time.Duration(0)
			const slice, length = 10 * time.Second, 20 * time.Minute
			for at := time.Duration(0); at < length; at += slice {
				if at == length/2 && tc.then != nil {
					tc.then(h)
				}
				before := h.currentNode().Paused
				h.passes(t, slice)
				if h.currentNode().Paused {
					paused += slice
					if !before {
						pauses++
					}
				}
			}
			n := h.reads(t)
			if most := time.Duration(pauses) * (pauseLimit + slice); pauses != tc.pauses || paused > most || paused < most-3*slice {
				t.Errorf("%d pauses of %s, want %d of 5 minutes", pauses, paused, tc.pauses)
			}
			if n.Paused || n.Unschedulable || !strings.Contains(n.Cause, "team/monitor") || !strings.Contains(n.Cause, "gpu.deploy.client=true") {
				t.Errorf("at the end, the Node is %+v", n)
			}
		})
	}
}

// labels changes a label of the Node.
func (h *hour) labels(key, value string) {
	h.api.Update("kubectl", func(n *apitest.Node) { n.Labels[key] = value })
	h.writes = -1
}

// again returns the manager of the next process.
func (h *hour) again() *Manager {
	m := New(h.cfg)
	m.now = h.Manager.now
	return m
}
