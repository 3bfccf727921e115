package pass

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"outrigger.dev/orchestrator/internal/model"
)

// index finds pods and nodes by their names, and collects causes.
type index struct {
	now  time.Time
	pods map[owner][]model.Pod
	// daemonSets are those that were observed.
	daemonSets map[model.Ref]model.DaemonSet
	// nodes are those with a pod that is not ready.
	nodes    map[string]*model.Node
	problems map[key]*problem
	// troubled are the nodes with a pod that is not ready.
	troubled map[string]bool
	// told are the nodes whose GPUReady is the cause of a pod.
	told  map[string]bool
	gpus  int
	again time.Duration
}

// owner is the DaemonSet of a pod.
type owner struct{ namespace, name string }

func newIndex(s model.State) *index {
	x := &index{
		now: s.Now, pods: map[owner][]model.Pod{}, daemonSets: map[model.Ref]model.DaemonSet{}, nodes: map[string]*model.Node{},
		problems: map[key]*problem{}, troubled: map[string]bool{}, told: map[string]bool{},
	}
	// The order in which the cluster lists pods does not matter.
	pods := slices.SortedFunc(slices.Values(s.Pods), func(a, b model.Pod) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range pods {
		if p.Of == "" {
			o := owner{p.Namespace, p.Owner}
			x.pods[o] = append(x.pods[o], p)
			x.nodes[p.Node] = &model.Node{Name: p.Node}
		}
	}
	for _, ds := range s.DaemonSets {
		x.daemonSets[ds.Ref] = ds
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if _, ok := x.nodes[n.Name]; ok {
			x.nodes[n.Name] = n
		}
		if n.HasGPU() {
			x.gpus++
		}
	}
	return x
}

// lookAgain makes the pass look again after d, if that is earlier than what it has. 0 is never.
func (x *index) lookAgain(d time.Duration) {
	if d > 0 && (x.again == 0 || d < x.again) {
		x.again = d
	}
}

// observed is what is known of the DaemonSets of a stage.
type observed struct {
	// status has the numbers of nodes. Those of the stage are the nodes of the DaemonSet with
	// the most of them.
	status     model.StageStatus
	daemonSets int
	// current says that the controller has seen the last change of each DaemonSet.
	current bool
	// proven says that the last version of the stage is ready on at least one node, and that
	// each of its DaemonSets is, or has only agents that run and wait.
	proven bool
	// onlyWaits says the latter without the former.
	onlyWaits bool
	// updated is the number of nodes that run the current version.
	updated int
	// missing are nodes that have no pod yet.
	missing int
	// first is the DaemonSet that misses pods.
	first model.Ref
}

// observe returns what is known of a stage, and collects the causes of pods that are not ready.
func (w *walk) observe(st model.Stage) observed {
	o := observed{status: model.StageStatus{Name: st.Name}, current: true}
	failed, waiting := map[string]bool{}, map[string]bool{}
	proven, stuck, waits, behind := 0, 0, 0, 0
	for _, object := range st.Objects {
		if object.GetKind() != "DaemonSet" {
			continue
		}
		o.daemonSets++
		ds, ok := w.index.daemonSets[model.RefOf(object)]
		if !ok || !ds.Current {
			o.current = false
		}
		if ds.Desired == 0 {
			continue
		}
		one := w.index.daemonSet(ds, st.Name, failed, waiting)
		switch {
		case one.proven:
			proven++
		case one.onlyWaits:
			waits++
		default:
			stuck++
		}
		o.status.Desired = max(o.status.Desired, ds.Desired)
		behind = max(behind, ds.Desired-ds.Updated)
		if one.missing > o.missing {
			o.missing, o.first = one.missing, ds.Ref
		}
	}
	o.count(failed, waiting)
	o.updated = max(0, o.status.Desired-behind)
	o.proven = o.current && (o.daemonSets == 0 || proven > 0 && stuck == 0)
	o.onlyWaits = o.current && waits > 0 && stuck == 0
	return o
}

// daemonSet adds the nodes of the pods that are not ready to failed or waiting.
func (x *index) daemonSet(ds model.DaemonSet, stage string, failed, waiting map[string]bool) observed {
	pods := x.pods[owner{ds.Namespace, ds.Name}]
	// All pods of the current version may be among those that are not ready.
	o := observed{proven: ds.Current && ds.Updated+ds.Ready-ds.Desired > 0, onlyWaits: len(pods) > 0}
	for i := range pods {
		p := &pods[i]
		c := x.podCause(p)
		o.onlyWaits = o.onlyWaits && c.kind == waits
		where := p.Node
		if where == "" {
			where = p.Namespace + "/" + p.Name // It counts as a node.
		}
		x.troubled[p.Node] = true
		if x.add(stage, p.Node, c) {
			failed[where] = true
		} else {
			waiting[where] = true
		}
	}
	o.missing = max(0, ds.Desired-ds.Ready-len(pods))
	return o
}

// count sets the numbers of nodes.
func (o *observed) count(failed, waiting map[string]bool) {
	s := &o.status
	s.Failed = min(len(failed), s.Desired)
	for node := range waiting {
		if !failed[node] {
			s.Waiting++
		}
	}
	s.Waiting = min(s.Waiting+o.missing, s.Desired-s.Failed)
	s.Ready = s.Desired - s.Failed - s.Waiting
}

// why returns why a stage is not ready on any node: the worst cause, if there is one.
func (o *observed) why(worst string) string {
	switch {
	case worst != "":
		return worst
	case o.missing > 0:
		return fmt.Sprintf("%d have no pod yet: if this lasts, kubectl describe daemonset -n %s %s says what forbids them (PodSecurity, a quota, admission)",
			o.missing, o.first.Namespace, o.first.Name)
	default:
		return "the pods are starting"
	}
}
