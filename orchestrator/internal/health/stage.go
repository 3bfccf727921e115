package health

import (
	"cmp"
	"fmt"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/cause"
)

// Stage is the health of a stage's DaemonSets.
type Stage struct {
	// StageStatus has the numbers of nodes, and the state and the message that follow from them. The
	// nodes of the stage are the nodes of its largest DaemonSet.
	model.StageStatus
	// Current says that the DaemonSet controller has observed the last change of each DaemonSet.
	Current bool
	// Works says that a node has a ready pod of any version, or that no node needs one.
	Works bool
	// Proven says that a node has a ready pod of the current version.
	Proven bool
	// Updated is the number of nodes that have the current version.
	Updated int
	// Broken says that a node has failed for a cause of the stage itself.
	Broken bool

	daemonSets int
	// missing is the number of nodes without a pod. first is the DaemonSet that lacks the most pods.
	missing int
	first   model.Ref
}

// Stage returns the health of a stage, and adds the causes of its pods to the problems.
func (v *View) Stage(st model.Stage) Stage {
	s := Stage{StageStatus: model.StageStatus{Name: st.Name}, Current: true}
	failed := map[string]bool{}
	behind := 0
	for _, object := range st.Objects {
		if object.GetKind() != "DaemonSet" {
			continue
		}
		s.daemonSets++
		ref := model.RefOf(object)
		ds := cmp.Or(v.state.DaemonSets[ref], &model.DaemonSet{})
		s.Current = s.Current && ds.Current
		if ds.Desired == 0 {
			continue
		}
		pods := v.addPods(&s, ref, failed)
		s.Works = s.Works || ds.Ready > 0
		// At least one ready pod has the current version, even if all pods that are not ready have it.
		s.Proven = s.Proven || ds.Current && ds.Updated+ds.Ready-ds.Desired > 0
		s.Desired = max(s.Desired, ds.Desired)
		behind = max(behind, ds.Desired-ds.Updated)
		if missing := ds.Desired - ds.Ready - pods; missing > s.missing {
			s.missing, s.first = missing, ref
		}
	}
	s.Works = s.Works || s.Desired == 0 && s.Current
	s.Updated = max(0, s.Desired-behind)
	s.count(failed)
	s.State = s.state()
	s.Message = v.message(s)
	return s
}

// addPods collects the causes of a DaemonSet's pods that are not ready, and sets in failed for each
// of their nodes whether it has failed. It returns the number of these pods.
func (v *View) addPods(s *Stage, ds model.Ref, failed map[string]bool) (pods int) {
	for _, p := range v.pods[owner{ds.Namespace, ds.Name}] {
		if p.Ready && v.past(p.Loops, 0) {
			continue
		}
		t, fails := v.podTrouble(p)
		if t.Code != "" {
			v.add(s.Name, p.Node, t, true)
			s.Broken = true
		}
		// A pod without a node counts as a node.
		where := cmp.Or(p.Node, p.Namespace+"/"+p.Name)
		failed[where] = fails || failed[where]
		pods++
	}
	return pods
}

// count sets the numbers of nodes that have failed, wait or are ready.
func (s *Stage) count(failed map[string]bool) {
	n := 0
	for _, f := range failed {
		n += boolToInt(f)
	}
	s.Failed = min(n, s.Desired)
	s.Waiting = min(len(failed)-n+s.missing, s.Desired-s.Failed)
	s.Ready = s.Desired - s.Failed - s.Waiting
}

// state returns the state of a stage, which follows from the numbers of nodes alone.
func (s *Stage) state() string {
	switch {
	case s.Failed > 0 && s.Ready+s.Waiting == 0:
		return model.Failed
	case s.Failed > 0:
		return model.Degraded
	case s.Waiting > 0, s.Updated < s.Desired, !s.Current:
		return model.Progressing
	}
	return model.Ready
}

// message returns the numbers of nodes as text, with the worst cause.
func (v *View) message(s Stage) string {
	if s.Desired == 0 {
		return v.unused(s)
	}
	if s.State == model.Ready {
		return ""
	}
	out := fmt.Sprintf("works on %d of %d nodes", s.Ready, s.Desired)
	if s.Failed > 0 {
		out += fmt.Sprintf(", failed on %d", s.Failed)
	}
	if s.Waiting > 0 {
		out += fmt.Sprintf(", waiting on %d", s.Waiting)
	}
	if s.Updated < s.Desired {
		out += fmt.Sprintf(", %d have the current version", s.Updated)
	}
	return JoinReason(out, v.why(s))
}

// unused returns the message of a stage that no node needs.
func (v *View) unused(s Stage) string {
	switch {
	case !s.Current:
		return "the DaemonSet controller has not seen the last change yet"
	case s.daemonSets == 0:
		return ""
	case v.Nodes.GPU == 0:
		return "no node matches its nodeSelector and affinity"
	}
	return fmt.Sprintf("no node matches its nodeSelector and affinity; %s in the cluster: check these values, and the labels nvidia.com/gpu.deploy.* of the nodes", Count(v.Nodes.GPU))
}

// why returns why a stage does not work on all nodes: the worst cause of its pods or of nodes, the
// missing pods, or the start of the pods.
func (v *View) why(s Stage) string {
	if worst := v.worst(s.Name); worst != "" || s.Failed+s.Waiting == 0 {
		return worst
	}
	if worst := v.worst(""); worst != "" {
		return worst
	}
	switch {
	case s.missing > 0:
		return fmt.Sprintf("%d have no pod yet: if this lasts, kubectl describe daemonset -n %s %s says what forbids them (PodSecurity, a quota, admission)",
			s.missing, s.first.Namespace, s.first.Name)
	}
	return "the pods are starting"
}

// worst returns the worst problem of a stage, or of nodes without a stage, in one sentence, or "".
func (v *View) worst(stage string) string {
	worst, found := key{}, false
	for k := range v.problems {
		if k.stage == stage && k.code != cause.GPUsFaulty && (!found || v.compare(k, worst) < 0) {
			worst, found = k, true
		}
	}
	if !found {
		return ""
	}
	return Sentence(v.report(worst))
}
