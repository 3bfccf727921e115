package validation_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/validation"
)

// TestWhateverHappens lets nodes come and go, and pods start, end, fail and hang. Whatever
// happens, few pods run at once, they run on ready nodes only, and once the cluster is quiet
// the check ends with a result and rests.
func TestWhateverHappens(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		name := []string{driver, plugin}[rng.IntN(2)]
		c := check(t, name, []string{"1", "3", "25%", "all"}[rng.IntN(4)])
		k := newCluster(c, rng.IntN(60))
		k.addNode("last")
		for step := range 60 {
			if step%20 == 19 {
				k.check.Revision = fmt.Sprintf("run%d", rng.IntN(3))
			}
			disturb(k, rng)
			before := k.State
			k.next()
			if err := sound(k, before); err != "" {
				t.Fatalf("seed %d, step %d: %s", seed, step, err)
			}
		}
		quiet(t, seed, k)
	}
}

// disturb changes something.
func disturb(k *cluster, rng *rand.Rand) {
	k.Now = k.Now.Add(time.Duration(rng.IntN(120)) * time.Second)
	n := k.Nodes[rng.IntN(len(k.Nodes))]
	switch rng.IntN(6) {
	case 0:
		n.Schedulable = !n.Schedulable
	case 1:
		if len(k.Nodes) > 1 {
			gone := n.Name
			k.Nodes = slices.DeleteFunc(slices.Clone(k.Nodes), func(n *model.Node) bool { return n.Name == gone })
		}
	case 2:
		k.addNode(fmt.Sprintf("b%d", rng.Uint32()))
	case 3:
		n.GPUReady, n.Reason, n.Since = "False", "CUDAStale", k.Now
	}
	for i := range k.Pods {
		p := k.Pods[i]
		if p.Phase != "Pending" || rng.IntN(3) > 0 {
			continue
		}
		if p.Node == "" {
			p.Node = k.Nodes[rng.IntN(len(k.Nodes))].Name
		}
		switch rng.IntN(5) {
		case 0:
			p.Phase, p.Reason, p.Message = "Failed", "Error", "wrong sum"
		case 1:
			p.Node, p.Reason, p.Message = "", "Unschedulable", unschedulable
		case 2:
			p.Phase, p.Reason = "Failed", "Evicted"
		default:
			p.Phase = "Succeeded"
		}
	}
}

// sound returns what is wrong with the last call, which has seen before, or "".
func sound(k *cluster, before model.State) string {
	active, names := 0, map[string]bool{}
	for _, p := range k.Pods {
		if names[p.Name] {
			return "two pods have the name " + p.Name
		}
		names[p.Name] = true
		if p.Phase == "Pending" && p.Revision == k.check.Revision {
			active++
		}
		if p.Node != "" && slices.Contains(k.created, p.Name) && !k.node(p.Node).Schedulable {
			return p.Name + " is on a node that is not ready"
		}
	}
	s := k.status
	switch {
	case active > 64:
		return fmt.Sprintf("%d pods at once", active)
	case len(k.created) > 32:
		return fmt.Sprintf("%d new pods", len(k.created))
	case s.State != validation.Running && (s.Revision != k.check.Revision || s.Time == nil):
		return fmt.Sprintf("a result without a run: %+v", s)
	case s.State == validation.Failed && s.Passed > 0:
		return fmt.Sprintf("failed, although it passed on %d nodes", s.Passed)
	}
	first, create, remove, again := validation.Next(k.check, before, s)
	second, create2, remove2, again2 := validation.Next(k.check, before, s)
	if !reflect.DeepEqual(first, second) || again != again2 || !reflect.DeepEqual(create, create2) || !reflect.DeepEqual(remove, remove2) {
		return "two calls with the same values differ"
	}
	return ""
}

// quiet ends all pods well until nothing happens.
func quiet(t *testing.T, seed uint64, k *cluster) {
	t.Helper()
	for i := range k.Nodes {
		k.Nodes[i].Schedulable, k.Nodes[i].GPUReady, k.Nodes[i].Reason = true, "True", ""
	}
	for range 50 {
		before := k.status
		k.next()
		if len(k.created)+len(k.removed) == 0 && k.status == before && k.again == 0 && k.status.State == validation.Passed {
			return
		}
		k.ends("Succeeded", "Completed", "")
		k.Now = k.Now.Add(max(k.again, time.Second))
	}
	t.Fatalf("seed %d: it does not come to rest: %+v, again %s, creates %v, removes %v, %d nodes, pods %+v",
		seed, k.status, k.again, k.created, k.removed, len(k.Nodes), k.Pods)
}
