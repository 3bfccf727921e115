package pass_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pass"
)

// TestEndState runs passes in a cluster in which pods fail, writes fail, policies change, and
// the orchestrator is killed at any step, until nothing is left to do.
func TestEndState(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newCluster(t, seed)
			c.stages = c.desire()
			c.objects[c.foreign("pods")] = &object{owner: "kubectl"}
			for range 60 {
				c.disturb()
				c.pass()
				c.check()
				c.tick()
			}
			c.mend()
			c.settle()
			c.desired()
			c.atRest()
		})
	}
}

// TestBrokenStageAtRest breaks one stage on all nodes: the passes stop there, and write nothing
// more, also after a restart; once it is mended, all is as desired.
func TestBrokenStageAtRest(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newCluster(t, seed)
			for len(c.stages) < 3 {
				c.stages = c.desire()
			}
			c.mend()
			c.settle()
			c.policy.Generation++
			c.stages = slices.Clone(c.stages)
			bad := c.make("apps/v1", "DaemonSet", c.stages[1].Name)
			bad.Object["data"] = "a bad image"
			c.stages[1].Objects = append(slices.Clone(c.stages[1].Objects[:2]), bad)
			c.bad = "a bad image"
			c.settle()
			if got := c.policy.Status.Stages[1]; got.State != model.Failed || got.Failed == 0 {
				t.Errorf("the broken stage is %+v", got)
			}
			if got := c.policy.Status; got.State != model.StateReady || got.Conditions[2].Reason != model.ReasonStageFailed {
				t.Errorf("the policy is %s, with the conditions %+v", got.State, got.Conditions)
			}
			c.atRest()
			c.bad = ""
			c.settle()
			c.desired()
		})
	}
}

// desire returns stages with random contents, of which some are left out.
func (c *cluster) desire() []model.Stage {
	var out []model.Stage
	for i, name := range []string{"feature-discovery", "container-toolkit", "device-plugin", "dcgm-exporter"} {
		if c.rnd.IntN(4) == 0 {
			continue
		}
		st := model.Stage{Name: name, Objects: []*unstructured.Unstructured{
			c.make("v1", "ServiceAccount", name), c.make("v1", "ConfigMap", "shared"), c.make("apps/v1", "DaemonSet", name),
		}}
		st.Objects[1].Object["data"] = "the same in all stages"
		if name == "device-plugin" {
			st.Needs = []string{"container-toolkit"}
		}
		if i == 1 || i == 2 {
			st.Validations = []model.Check{{Name: name + "-validation", Revision: fmt.Sprint(c.rnd.IntN(2))}}
		}
		out = append(out, st)
	}
	return out
}

func (c *cluster) make(version, kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"data": fmt.Sprint(c.rnd.IntN(2))}}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetNamespace("gpu")
	o.SetName(name)
	return o
}

func (c *cluster) foreign(name string) model.Ref {
	return model.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "gpu", Name: name}
}

// disturb changes the policy, the nodes, or an object behind the orchestrator's back.
func (c *cluster) disturb() {
	switch {
	case c.chance(12):
		c.stages = c.desire()
		c.policy.Generation++
	case c.chance(12):
		// Somebody deletes the policy with its definition, and restores both with other values.
		c.stages = c.desire()
		c.policy.Generation, c.policy.Status = 1, model.Status{}
	case c.chance(12):
		n := c.nodes[c.rnd.IntN(len(c.nodes))]
		n.broken = !n.broken
	case c.chance(12):
		n := c.nodes[c.rnd.IntN(len(c.nodes))]
		n.gpu = !n.gpu
	case c.chance(12):
		for _, o := range c.objects {
			if o.ours && !o.deleting {
				o.drifted = true
				break
			}
		}
	case c.chance(12):
		for ref, o := range c.objects {
			if o.ours && ref.Kind != "DaemonSet" {
				delete(c.objects, ref)
				delete(c.applied, ref)
				break
			}
		}
	}
}

// mend leaves one broken node, and nothing else that fails.
func (c *cluster) mend() {
	c.calm = true
	for i, n := range c.nodes {
		n.gpu, n.broken = i > 0, i == 3
	}
}

// settle passes until nothing changes.
func (c *cluster) settle() {
	c.t.Helper()
	for range 200 {
		changed := c.pass()
		before := c.shown()
		c.tick()
		c.now = c.now.Add(-1e9)
		if !changed && before == c.shown() {
			return
		}
	}
	c.t.Fatalf("it never settles: %+v", c.policy.Status)
}

// shown returns the state as text.
func (c *cluster) shown() string {
	s := c.state()
	text := ""
	for _, p := range s.Pods {
		text += fmt.Sprintln(*p)
	}
	for _, ref := range slices.SortedFunc(maps.Keys(s.DaemonSets), func(a, b model.Ref) int { return strings.Compare(a.String(), b.String()) }) {
		text += fmt.Sprintln(ref, *s.DaemonSets[ref])
	}
	for _, n := range s.Nodes {
		text += fmt.Sprintln(*n)
	}
	s.DaemonSets, s.Pods, s.Nodes = nil, nil, nil
	return text + fmt.Sprint(s)
}

// desired checks that the cluster has what the policy says, and nothing else.
func (c *cluster) desired() {
	c.t.Helper()
	want := map[model.Ref]bool{}
	for _, st := range c.stages {
		for _, o := range st.Objects {
			want[model.RefOf(o)] = true
			if got := c.objects[model.RefOf(o)]; got == nil || !got.ours || got.drifted || got.content != fmt.Sprint(o.Object) {
				c.t.Errorf("%s is not as desired: %+v", model.RefOf(o), got)
			}
		}
	}
	for ref, o := range c.objects {
		if o.ours && !want[ref] {
			c.t.Errorf("%s is left over", ref)
		}
		if o.ours && !slices.Contains(c.policy.Status.Inventory, ref) {
			c.t.Errorf("%s is not in the inventory", ref)
		}
	}
	if len(c.policy.Status.Inventory) != len(want) {
		c.t.Errorf("the inventory has %d objects, want %d", len(c.policy.Status.Inventory), len(want))
	}
	if len(c.checks) != 0 {
		c.t.Errorf("pods of validations are left over: %v", c.checks)
	}
	if c.policy.Status.State != model.StateReady {
		c.t.Errorf("the policy is %s: %+v", c.policy.Status.State, c.policy.Status.Stages)
	}
}

// atRest checks that nothing more is written, also after a restart, except for applying again
// what a new process cannot know to be applied.
func (c *cluster) atRest() {
	c.t.Helper()
	for _, killed := range []bool{false, true} {
		if killed {
			c.restart()
		}
		for range 10 {
			plan := pass.Next(c.stages, c.state(), validate)
			if !killed && len(plan.Apply) > 0 {
				c.t.Errorf("%d objects are applied again", len(plan.Apply))
			}
			if len(plan.Create)+len(plan.Delete)+len(plan.Events) > 0 || !same(c.t, published(c.t, plan.Status), c.policy.Status) {
				c.t.Fatalf("killed %t: at rest, the plan is %+v\nstatus was %+v", killed, plan, c.policy.Status)
			}
			for _, a := range plan.Apply {
				c.applied[model.RefOf(a.Object)] = a.Hash
			}
		}
	}
}
