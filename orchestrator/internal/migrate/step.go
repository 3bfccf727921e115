package migrate

import (
	"fmt"
	"slices"
	"strings"
)

// Step is the hand-over of one component, in one direction.
type Step struct {
	Component Component `json:"component"`
	// From and To are the values of the label: Theirs and Ours, or the other way round with --undo.
	From string `json:"from"`
	To   string `json:"to"`
	// By is the way of a hand-over to Outrigger: ByLabels or ByClusterPolicy. Policy is NVIDIA's ClusterPolicy that the step
	// changes, and Refused says why it cannot.
	By      string `json:"by,omitempty"`
	Policy  string `json:"clusterPolicy,omitempty"`
	Refused string `json:"refused,omitempty"`
	// OnReboot says that each node waits for its next reboot.
	OnReboot bool `json:"onReboot,omitempty"`
	// Nodes are handed over, in this order. Done already have the value To, and are not cordoned for the hand-over. Skipped
	// say why they keep their value.
	Nodes   []string `json:"nodes"`
	Done    []string `json:"done,omitempty"`
	Skipped []string `json:"skipped,omitempty"`
	// Old and New are the DaemonSets of both sides.
	Old []Set `json:"old"`
	New []Set `json:"new"`
	// Free are DaemonSets of Outrigger that run whatever the label says, so that a hand-over cannot end them.
	Free []string `json:"free,omitempty"`
}

// Next derives the hand-over of a component from the observed state.
func Next(s *State, c Component, undo bool) Step {
	step := Step{Component: c, From: Theirs, To: Ours}
	if undo {
		step.From, step.To = Ours, Theirs
	}
	for _, n := range s.Nodes {
		switch value, is := n.Labels[c.Label]; {
		case value == step.From, value == Between, value == step.To && c.Name == Driver && n.Annotations[cordoned] != "":
			step.Nodes = append(step.Nodes, n.Name)
		case value == step.To:
			step.Done = append(step.Done, n.Name)
		case is && value != "":
			step.Skipped = append(step.Skipped, fmt.Sprintf("%s: %s=%s", n.Name, c.Label, value))
		}
	}
	slices.Sort(step.Nodes)
	step.Old, step.New = s.Side(c.Label, step.From), s.Side(c.Label, step.To)
	step.Free = s.Free
	p, made, err := s.disabled(c)
	switch {
	case err != nil:
		step.Refused = err.Error()
	case p != nil && undo:
		step.Policy, step.New = p.GetName(), made.Sets
	case p != nil && len(step.Old) == 0:
		step.Old = made.Sets
	}
	if len(step.Old)+len(step.New)+len(step.Free) == 0 {
		step.Nodes, step.Skipped = nil, []string{"all nodes: neither NVIDIA's GPU Operator nor Outrigger has a DaemonSet for this component"}
	}
	return step
}

// by returns the step on one of the ways.
func (s Step) by(way string, state *State) Step {
	if s.To != Ours {
		return s
	}
	s.By = way
	if way != ByClusterPolicy {
		return s
	}
	p, err := state.canDisable(s.Component)
	if err != nil {
		s.Refused = err.Error()
		return s
	}
	s.Policy = p.GetName()
	return s
}

// way describes how the step differs from the usual way, or returns "".
func (s Step) way() string {
	key := strings.Join(s.Component.keys(), " and ")
	switch {
	case s.OnReboot:
		return fmt.Sprintf("each node at its next reboot, while this command runs: until then, the driver of %s stays, and no pod is evicted", side(s.From))
	case s.By == ByClusterPolicy && s.Policy != "":
		return fmt.Sprintf("after the first node, disables %s in ClusterPolicy %s of nvidia.com: NVIDIA's pods end on all nodes at once, and a new node has neither side until you run this command again; by labels, nodes go in groups, and a new node has NVIDIA's", key, s.Policy)
	case s.Policy != "":
		return fmt.Sprintf("restores %s in ClusterPolicy %s of nvidia.com, for all nodes; Outrigger keeps the nodes that are not given back", key, s.Policy)
	}
	return ""
}

// movable reports whether a hand-over changes a value. Users and other programs keep components off a node by other values.
func movable(value string) bool { return value == Theirs || value == Ours || value == Between }

// Check returns why the step cannot begin, or nil.
func (s Step) Check() error {
	if s.Refused != "" {
		return fmt.Errorf("%s: %s", s.Component.Name, s.Refused)
	}
	if len(s.Nodes) > 0 && len(s.Free) > 0 {
		return fmt.Errorf("%s: the DaemonSets %s of Outrigger do not select %s=%s, and would run beside NVIDIA's; upgrade Outrigger's release with the values of \"kubectl outrigger migrate --write FILE\", without --final", s.Component.Name, names(s.Free), s.Component.Label, Ours)
	}
	if len(s.Nodes) == 0 || len(s.New) > 0 {
		return nil
	}
	if s.To == Ours {
		return fmt.Errorf("%s: no DaemonSet of Outrigger selects %s=%s; install the chart outrigger with the values of \"kubectl outrigger migrate --write FILE\", and wait until its ClusterPolicy (kubectl get clusterpolicies.outrigger.dev) is not Progressing any more", s.Component.Name, s.Component.Label, Ours)
	}
	return fmt.Errorf("%s: no DaemonSet of NVIDIA's GPU Operator selects %s=%s; enable %s in its ClusterPolicy, and check that its operator runs", s.Component.Name, s.Component.Label, Theirs, s.Component.Key)
}

// Text returns the step for people.
func (s Step) Text() string {
	var b strings.Builder
	direction := "from NVIDIA's GPU Operator to Outrigger"
	if s.To == Theirs {
		direction = "back to NVIDIA's GPU Operator"
	}
	fmt.Fprintf(&b, "Hand-over of %s %s, by the label %s=%s:\n", s.Component.Name, direction, s.Component.Label, s.To)
	for _, side := range []struct {
		verb string
		sets []Set
	}{{"ends  ", s.Old}, {"starts", s.New}} {
		for _, set := range side.sets {
			fmt.Fprintf(&b, "  %s  %s/%s (%s)\n", side.verb, set.Namespace, set.Name, strings.Join(set.Images, ", "))
		}
	}
	fmt.Fprintf(&b, "  nodes   %s\n", names(s.Nodes))
	if len(s.Done) > 0 {
		fmt.Fprintf(&b, "  done    %s\n", names(s.Done))
	}
	for _, skipped := range s.Skipped {
		fmt.Fprintf(&b, "  skipped %s\n", skipped)
	}
	if way := s.way(); way != "" {
		fmt.Fprintf(&b, "  way     %s\n", way)
	}
	if !s.OnReboot {
		fmt.Fprintf(&b, "  effect  %s\n", s.Component.Effect)
	}
	return b.String()
}

// names returns some names, and the number of the others.
func names(all []string) string {
	const most = 5
	if len(all) == 0 {
		return "none"
	}
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

// waves returns the groups of nodes that are handed over together: one node first, and then groups of the others. Nodes
// lose their driver one by one.
func (s Step) waves() [][]string {
	const most = 20
	if len(s.Nodes) == 0 {
		return nil
	}
	size := most
	if s.Component.Name == Driver {
		size = 1
	}
	if s.By == ByClusterPolicy {
		size = len(s.Nodes)
	}
	return append([][]string{s.Nodes[:1]}, slices.Collect(slices.Chunk(s.Nodes[1:], size))...)
}

// ended returns which pods of one side still exist on nodes.
func ended(s *State, c Component, value string, nodes []string) []string {
	var left []string
	for _, p := range s.Pods {
		if p.Value == value && slices.Contains(c.Labels(), p.Label) && slices.Contains(nodes, p.Node) {
			left = append(left, p.Namespace+"/"+p.Name)
		}
	}
	return left
}

// missingOn returns why a node does not have a working component of one side yet. want are the resources that the node
// must offer at least.
func missingOn(s *State, c Component, value, node string, want map[string]int64) string {
	found := false
	for _, p := range s.Pods {
		if p.Node != node || p.Value != value || !slices.Contains(c.Labels(), p.Label) {
			continue
		}
		if !p.Ready {
			return "pod " + p.Namespace + "/" + p.Name + " is not ready: " + p.Waits
		}
		found = found || p.Label == c.Label
	}
	if !found {
		return "no pod has started"
	}
	n := s.node(node)
	if n == nil {
		return ""
	}
	have := gpus(n.Status.Allocatable)
	for resource, had := range want {
		if have[resource] < had {
			return fmt.Sprintf("the node offers %d %s, and had %d", have[resource], resource, had)
		}
	}
	return ""
}

// offered returns the resources that each node must offer after the hand-over. While a hand-over that was interrupted
// has left a node without the side from, its allocatable resources may be 0, and its capacity is not.
func offered(s *State, c Component, nodes []string, from string) map[string]map[string]int64 {
	want := map[string]map[string]int64{}
	for _, n := range s.Nodes {
		if slices.Contains(nodes, n.Name) {
			want[n.Name] = gpus(n.Status.Allocatable)
			if n.Labels[c.Label] != from || len(s.Side(c.Label, from)) == 0 {
				want[n.Name] = gpus(n.Status.Capacity)
			}
		}
	}
	return want
}
