package pass_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pass"
)

// cluster is a small cluster in memory: objects with field managers, a DaemonSet controller,
// kubelets that start pods when they please, and an orchestrator that is killed at any step.
type cluster struct {
	t   *testing.T
	rnd *rand.Rand
	now time.Time
	// calm switches failures and kills off.
	calm bool
	// bad is the content of DaemonSets whose pods never get ready.
	bad string

	stages  []model.Stage
	policy  model.Policy
	objects map[model.Ref]*object
	nodes   []*node
	checks  map[string]model.Pod
	// What the process of the orchestrator knows.
	applied  map[model.Ref]string
	failures map[model.Ref]string
	writes   int
}

type object struct {
	uid            types.UID
	content, owner string
	ours           bool
	drifted        bool
	deleting       bool
	// generation and seen are those of a DaemonSet; pods are its pods by node.
	generation, seen int
	pods             map[string]*pod
}

type pod struct {
	generation int
	ready      bool
}

type node struct {
	name string
	gpu  bool
	// broken nodes never get a pod ready.
	broken bool
}

func newCluster(t *testing.T, seed uint64) *cluster {
	c := &cluster{
		t: t, rnd: rand.New(rand.NewPCG(seed, 7)), now: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC),
		policy: model.Policy{Name: "cluster-policy", UID: "p", Generation: 1}, objects: map[model.Ref]*object{}, checks: map[string]model.Pod{},
	}
	c.restart()
	for i := range 4 {
		c.nodes = append(c.nodes, &node{name: fmt.Sprintf("n%d", i), gpu: i > 0})
	}
	return c
}

// restart forgets what a process knows.
func (c *cluster) restart() {
	c.applied, c.failures = map[model.Ref]string{}, map[model.Ref]string{}
}

// chance is true once in n times, on average.
func (c *cluster) chance(n int) bool { return !c.calm && c.rnd.IntN(n) == 0 }

// state returns what an orchestrator observes.
func (c *cluster) state() model.State {
	s := model.State{Policy: c.policy, Objects: map[model.Ref]model.Seen{}, DaemonSets: map[model.Ref]*model.DaemonSet{}, Failures: maps.Clone(c.failures), Now: c.now}
	for ref, o := range c.objects {
		s.Objects[ref] = model.Seen{
			Ref: ref, UID: o.uid, Ours: o.ours, Owner: o.owner, Drifted: o.drifted, Deleting: o.deleting, Applied: c.applied[ref],
		}
		if ref.Kind == "DaemonSet" {
			s.DaemonSets[ref] = o.daemonSet()
			for at, p := range o.pods {
				if !p.ready {
					s.Pods = append(s.Pods, &model.Pod{
						Namespace: ref.Namespace, Name: ref.Name + "-" + at, Node: at, Owner: ref.Name, Phase: "Pending",
						Reason: "ImagePullBackOff", Message: "not found", Since: c.now.Add(-time.Minute), Deleting: o.deleting,
					})
				}
			}
		}
	}
	for _, p := range c.checks {
		s.Pods = append(s.Pods, &p)
	}
	for _, n := range c.nodes {
		labels := map[string]string{}
		if n.gpu {
			labels["nvidia.com/gpu.present"] = "true"
		}
		s.Nodes = append(s.Nodes, &model.Node{Name: n.name, Labels: labels, Schedulable: true, Allocatable: map[string]int64{"nvidia.com/gpu": 1}, Capacity: map[string]int64{"nvidia.com/gpu": 1}})
	}
	return s
}

func (o *object) daemonSet() *model.DaemonSet {
	ds := &model.DaemonSet{Current: o.seen == o.generation, Desired: len(o.pods)}
	for _, p := range o.pods {
		if p.generation == o.seen {
			ds.Updated++
		}
		if p.ready {
			ds.Ready++
		}
	}
	return ds
}

func (o *object) bad(content string) bool {
	return content != "" && strings.Contains(o.content, content)
}

// pass is one pass of the orchestrator, and reports whether it changed anything.
func (c *cluster) pass() bool {
	s := c.state()
	c.rnd.Shuffle(len(s.Pods), func(i, j int) { s.Pods[i], s.Pods[j] = s.Pods[j], s.Pods[i] })
	plan := pass.Next(c.stages, s, validate)
	c.writes = 0
	c.drop(plan)
	for _, step := range c.steps(plan) {
		if c.chance(6) {
			c.restart() // kill -9
			return true
		}
		step()
		c.check()
	}
	return c.writes+len(plan.Events) > 0 || plan.Again > 0
}

// steps returns the writes of a plan in order.
func (c *cluster) steps(plan model.Plan) []func() {
	var steps []func()
	if stored := published(c.t, plan.Status); !same(c.t, stored, c.policy.Status) {
		steps = append(steps, func() {
			c.writes++
			c.policy.Status = stored
		})
	}
	for _, a := range plan.Apply {
		steps = append(steps, func() { c.apply(a) })
	}
	for _, p := range plan.Create {
		steps = append(steps, func() {
			c.writes++
			c.checks[p.GetName()] = model.Pod{Namespace: "gpu", Name: p.GetName(), Owner: p.GetName(), Phase: "Running", Revision: p.GetLabels()["of"], Since: c.now}
		})
	}
	for _, d := range plan.Delete {
		steps = append(steps, func() { c.remove(d) })
	}
	return steps
}

func (c *cluster) apply(a model.Apply) {
	ref := model.RefOf(a.Object)
	if c.chance(8) {
		c.failures[ref] = "the API server answers 500"
		return
	}
	if !slices.Contains(c.policy.Status.Inventory, ref) {
		c.t.Fatalf("%s is applied and not listed in the inventory", ref)
	}
	c.inOrder(a)
	delete(c.failures, ref)
	o := c.objects[ref]
	if o == nil {
		o = &object{uid: types.UID(fmt.Sprint(c.rnd.Uint64())), pods: map[string]*pod{}}
		c.objects[ref] = o
	}
	if o.owner != "" {
		c.t.Fatalf("%s of %s is overwritten", ref, o.owner)
	}
	if c.applied[ref] != a.Hash {
		c.writes++ // The next pass knows more.
	}
	if content := fmt.Sprint(a.Object.Object); o.content != content || o.drifted {
		o.generation++
		c.writes++
		o.content = content
	}
	o.ours, o.drifted = true, false
	c.applied[ref] = a.Hash
}

// inOrder checks that a stage changes only if the stages that it needs run on a node, in any version.
func (c *cluster) inOrder(a model.Apply) {
	var needs []string
	for _, st := range c.stages {
		if st.Name == a.Stage {
			needs = st.Needs
		}
	}
	if known := c.objects[model.RefOf(a.Object)]; known != nil && known.ours {
		return // a repair does not wait
	}
	for _, st := range c.stages {
		if !slices.Contains(needs, st.Name) {
			continue
		}
		for _, want := range st.Objects {
			if want.GetKind() != "DaemonSet" {
				continue // the fact that the DaemonSet reports is the need
			}
			o := c.objects[model.RefOf(want)]
			if o == nil {
				c.t.Fatalf("%s is applied before %s of the stage %s", a.Object.GetName(), want.GetName(), st.Name)
			}
			if len(o.pods) == 0 {
				continue
			}
			if !slices.ContainsFunc(slices.Collect(maps.Values(o.pods)), func(p *pod) bool { return p.ready }) {
				c.t.Fatalf("%s of the stage %s is applied before the stage %s is ready on a node", a.Object.GetName(), a.Stage, st.Name)
			}
		}
	}
}

func (c *cluster) remove(d model.Seen) {
	if d.Kind == "Pod" {
		if p, ok := c.checks[d.Name]; ok {
			c.writes++
			p.Deleting = true
			c.checks[d.Name] = p
		}
		return
	}
	o := c.objects[d.Ref]
	if o == nil || o.uid != d.UID {
		c.t.Fatalf("%s is deleted and is not there", d.Ref)
	}
	if !o.ours {
		c.t.Fatalf("%s of %s is deleted", d.Ref, o.owner)
	}
	if d.Kind != "DaemonSet" {
		for ref, other := range c.objects {
			if ref.Kind == "DaemonSet" && other.ours && !desires(c.stages, ref) {
				c.t.Fatalf("%s is deleted before %s", d.Ref, ref)
			}
		}
	}
	c.writes++
	o.deleting = true
}

// check checks what holds after each step: a published inventory has every object.
func (c *cluster) check() {
	if c.policy.Status.State == "" {
		return // the policy was restored without its status
	}
	for ref, o := range c.objects {
		if o.ours && !slices.Contains(c.policy.Status.Inventory, ref) {
			c.t.Fatalf("%s was applied, and the inventory has lost it", ref)
		}
	}
}

// published returns a status as the API server gives it back.
func published(t *testing.T, s model.Status) model.Status {
	t.Helper()
	content, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var out model.Status
	if err := json.Unmarshal(content, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t *testing.T, a, b model.Status) bool {
	t.Helper()
	return encode(t, a) == encode(t, b)
}

func encode(t *testing.T, s model.Status) string {
	t.Helper()
	content, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func desires(stages []model.Stage, ref model.Ref) bool {
	for _, st := range stages {
		for _, o := range st.Objects {
			if model.RefOf(o) == ref {
				return true
			}
		}
	}
	return false
}
