package pass

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/cause"
)

// index finds pods and nodes by their names, and collects causes.
type index struct {
	now      time.Time
	pods     map[owner][]*model.Pod
	nodes    map[string]*model.Node
	problems map[key]*problem
	// troubled has the nodes with a pod that is not ready.
	troubled map[string]bool
	// explained has the nodes whose GPUReady is already reported as the cause of a pod.
	explained map[string]bool
	gpus      int
	again     time.Duration
}

// owner is the DaemonSet of a pod.
type owner struct{ namespace, name string }

func newIndex(s model.State) *index {
	x := &index{
		now: s.Now, pods: map[owner][]*model.Pod{}, nodes: map[string]*model.Node{},
		problems: map[key]*problem{}, troubled: map[string]bool{}, explained: map[string]bool{},
	}
	// The result does not depend on the order of the pods in the API server's lists.
	pods := slices.Clone(s.Pods)
	slices.SortFunc(pods, func(a, b *model.Pod) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range pods {
		if p.Revision == "" {
			o := owner{p.Namespace, p.Owner}
			x.pods[o] = append(x.pods[o], p)
		}
	}
	for _, n := range s.Nodes {
		x.nodes[n.Name] = n
		if n.HasGPU() {
			x.gpus++
		}
	}
	return x
}

// observed is the observed state of a stage's DaemonSets.
type observed struct {
	// status has the numbers of nodes. The nodes of the stage are the nodes of its largest
	// DaemonSet.
	status     model.StageStatus
	daemonSets int
	// current says that the DaemonSet controller has observed the last change of each DaemonSet.
	current bool
	// proven says that at least one DaemonSet has a ready pod of the current version, and that each
	// other DaemonSet has one, or has only agents that run and wait.
	proven bool
	// onlyWaits says that the pods of at least one DaemonSet only wait, and that no DaemonSet has
	// another cause.
	onlyWaits bool
	// updated is the number of nodes that run the current version.
	updated int
	// missing is the number of nodes that have no pod yet.
	missing int
	// first is the DaemonSet with the most missing pods.
	first model.Ref
}

// observe returns the observed state of a stage, and collects the causes of its pods that are not
// ready.
func (w *walk) observe(st model.Stage) observed {
	o := observed{status: model.StageStatus{Name: st.Name}, current: true}
	failed := map[string]bool{}
	proven, waiting, stuck, behind := 0, 0, 0, 0
	for _, object := range st.Objects {
		if object.GetKind() != "DaemonSet" {
			continue
		}
		o.daemonSets++
		ref := model.RefOf(object)
		ds := cmp.Or(w.state.DaemonSets[ref], &model.DaemonSet{})
		o.current = o.current && ds.Current
		if ds.Desired == 0 {
			continue
		}
		pods, onlyWait := w.index.causes(ref, st.Name, failed)
		switch {
		// At least one ready pod has the current version, even if all pods that are not ready have
		// it.
		case ds.Current && ds.Updated+ds.Ready-ds.Desired > 0:
			proven++
		case onlyWait:
			waiting++
		default:
			stuck++
		}
		o.status.Desired = max(o.status.Desired, ds.Desired)
		behind = max(behind, ds.Desired-ds.Updated)
		if missing := ds.Desired - ds.Ready - pods; missing > o.missing {
			o.missing, o.first = missing, ref
		}
	}
	o.count(failed)
	o.updated = max(0, o.status.Desired-behind)
	o.proven = o.current && (o.daemonSets == 0 || proven > 0 && stuck == 0)
	o.onlyWaits = o.current && waiting > 0 && stuck == 0
	return o
}

// causes collects the causes of a DaemonSet's pods that are not ready, and sets in failed for each
// of their nodes whether it has failed. It returns the number of these pods, and whether all of
// them run and wait.
func (x *index) causes(ds model.Ref, stage string, failed map[string]bool) (pods int, onlyWait bool) {
	all := x.pods[owner{ds.Namespace, ds.Name}]
	onlyWait = len(all) > 0
	for _, p := range all {
		t := x.podCause(p)
		onlyWait = onlyWait && t.severity == cause.Waits
		x.troubled[p.Node] = true
		// A pod without a node counts as a node.
		where := cmp.Or(p.Node, p.Namespace+"/"+p.Name)
		failed[where] = x.add(stage, p.Node, t) || failed[where]
	}
	return len(all), onlyWait
}

// count sets the numbers of nodes that have failed, wait or are ready.
func (o *observed) count(failed map[string]bool) {
	s, n := &o.status, 0
	for _, f := range failed {
		n += boolToInt(f)
	}
	s.Failed = min(n, s.Desired)
	s.Waiting = min(len(failed)-n+o.missing, s.Desired-s.Failed)
	s.Ready = s.Desired - s.Failed - s.Waiting
}

// why returns why a stage is not ready on any node: the worst cause, the missing pods, or the start
// of the pods.
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
