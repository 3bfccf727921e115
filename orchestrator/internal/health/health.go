// Package health derives from the observed state on which nodes GPUs can be used, on how many nodes
// each stage works, and which causes keep the other nodes from working. It does no I/O, and keeps
// no state between passes.
//
//	State ─▶ View ─▶ Nodes: nodes and GPUs that can be used
//	              ├▶ Stage: counts ─▶ state and message
//	              └▶ Problems: causes that have lasted
package health

import (
	"cmp"
	"slices"
	"time"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/cause"
)

const (
	// settle is how long a cause has to last before it counts. It is longer than the 10 s between
	// two reports of a kubelet, so that the restart of an agent is no cause.
	settle = 15 * time.Second
	// Patience is how long a pod or a node may start. It leaves time to pull an image of several
	// GB, or to build and load a driver.
	Patience = 10 * time.Minute
)

// View is the health of a cluster at one moment.
type View struct {
	// Nodes has the numbers of nodes and GPUs.
	Nodes Nodes
	// Again is the delay until a cause counts or ends without another change, or 0.
	Again time.Duration

	state model.State
	// plugin says that the policy has a device plugin. It is true too if the values are refused, because the stages are not known then.
	plugin   bool
	pods     map[owner][]*model.Pod
	nodes    map[string]*model.Node
	problems map[key]*problem
	// failed has the nodes whose GPUs cannot be used, and whose cause has lasted.
	failed map[string]bool
	// starting and failing have the nodes with an agent's pod that starts, became ready only now, or fails.
	// The pod has the cause then.
	starting, failing map[string]bool
}

// owner is the DaemonSet of a pod.
type owner struct{ namespace, name string }

// New returns the health of the cluster in a state, for the stages of its policy.
func New(stages []model.Stage, s model.State) *View {
	v := &View{
		state: s, pods: map[owner][]*model.Pod{}, nodes: map[string]*model.Node{}, problems: map[key]*problem{},
		failed: map[string]bool{}, starting: map[string]bool{}, failing: map[string]bool{},
	}
	v.plugin = s.Policy.Refused != "" || slices.ContainsFunc(stages, func(st model.Stage) bool { return st.Chart() == "device-plugin" })
	// The result does not depend on the order of the pods in the API server's lists.
	pods := slices.Clone(s.Pods)
	slices.SortFunc(pods, func(a, b *model.Pod) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range pods {
		if p.Revision == "" {
			o := owner{p.Namespace, p.Owner}
			v.pods[o] = append(v.pods[o], p)
			v.starting[p.Node] = v.starting[p.Node] || !p.Since.IsZero() && !v.past(p.Since, model.RestartTime)
			v.failing[p.Node] = v.failing[p.Node] || !p.Deleting && canonicalCode(p.Reason).Row().Severity == cause.Fails
		}
	}
	for _, n := range s.Nodes {
		v.nodes[n.Name] = n
		v.node(n)
	}
	return v
}

// lasted reports whether a cause has lasted long enough to count. lost says that the node has worked
// before, so that it is not starting.
func (v *View) lasted(t Trouble, lost bool) bool {
	limit := Patience
	if t.Severity == cause.Fails || lost {
		limit = settle
	}
	return v.past(t.Since, limit)
}

// past reports whether limit has passed since a time, and otherwise requests a pass for the end of limit. It returns
// true for the zero time.
func (v *View) past(since time.Time, limit time.Duration) bool {
	if since.IsZero() {
		return true
	}
	left := limit - v.state.Now.Sub(since)
	v.Again = model.Soonest(v.Again, max(left, 0))
	return left <= 0
}
