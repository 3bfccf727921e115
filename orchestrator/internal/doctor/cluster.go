package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/pkg/cause"
)

// maxClose is the maximum number of nodes that a diagnosis of the whole cluster looks at closely.
const maxClose = 10

// Closely returns the nodes that a diagnosis of the whole cluster looks at closely, as a diagnosis of one node does: with
// all pods of agents, and their answers. These are the GPU nodes that cannot be used and are not opted out, or none if there
// are many, and if there is room the nodes with a device that fails or an Event whose end only the device plugin knows. It does
// not depend on facts that only an archive has, so that a diagnosis of a cluster and of its archive are equal.
func Closely(f facts.Facts) (names []string) {
	doubtful := map[string]bool{}
	for _, e := range f.Events {
		if reason := cause.Code(e.Reason); e.InvolvedObject.Kind == "Node" && (reason == cause.DeviceNotOffered || reason == cause.ConfigRefused) {
			doubtful[e.InvolvedObject.Name] = true
		}
	}
	var others []string
	for _, n := range f.Nodes {
		m := observe.NodeOf(n)
		switch t, unusable := health.NodeTrouble(m); {
		case m.NotReady || !m.HasGPU() && len(m.Capacity) == 0:
		case unusable && !m.OptedOut():
			names = append(names, n.Name)
		case !unusable && (t.Code == cause.GPUsFaulty || doubtful[n.Name]):
			others = append(others, n.Name)
		}
	}
	switch {
	case len(names) > maxClose:
		return nil
	case len(names)+len(others) <= maxClose:
		return append(names, others...)
	}
	return names
}

// cluster adds the diagnosis of the whole cluster: causes with their numbers of nodes.
func (d *diagnosis) cluster(r *Report) {
	if r.blind = len(d.Nodes) == 0; r.blind { // each cluster has nodes
		r.Verdict = "the nodes could not be read, so no GPU was looked at"
		return
	}
	var all []Finding
	var optedOut []string
	gpuNodes, usable := 0, 0
	d.closely = map[string]bool{}
	for _, name := range Closely(d.Facts) {
		d.closely[name] = true
	}
	d.whole = d.closely
	for _, n := range d.Nodes {
		m := d.compact[n.Name]
		if !m.HasGPU() && len(m.Capacity) == 0 {
			continue
		}
		_, unusable := health.NodeTrouble(m)
		if unusable && m.OptedOut() {
			optedOut = append(optedOut, n.Name)
			continue
		}
		gpuNodes++
		if !unusable {
			usable++
		}
		all = append(all, join(slices.DeleteFunc(d.ofNode(n), informs))...)
	}
	if len(optedOut) > 0 {
		r.Notes = append(r.Notes, "labels keep agents off "+plural(len(optedOut), "more GPU node")+": "+health.Abbreviate(optedOut, len(optedOut)))
	} else if gpuNodes == 0 {
		all = append(all, noGPUNode())
	}
	all = append(all, d.ofPolicies()...)
	all = append(all, d.ofDaemonSets()...)
	all = append(all, d.ofLostPods()...)
	all = append(all, d.ofWaitingPods()...)
	r.Findings = group(all)
	r.Verdict = fmt.Sprintf("GPUs of %d of %s can be used", usable, plural(gpuNodes, "GPU node"))
	if len(r.Findings) > 0 {
		first := r.Findings[0]
		r.Verdict += fmt.Sprintf("; the first cause is %s (%s)", first.Code, places(first))
	}
}

// noGPUNode returns the finding for a cluster without a GPU node.
func noGPUNode() Finding {
	f := newFinding(cause.NFDLabelsMissing, "the cluster", "no Node has a label of a GPU, such as nvidia.com/gpu.present=true, or a resource nvidia.com/*", "labels and capacity of the Nodes")
	f.derived = true // the ClusterPolicy can say why
	return f
}

// places returns where a finding holds.
func places(f Finding) string {
	if f.Nodes > 0 {
		return "on " + plural(f.Nodes, "node")
	}
	if len(f.Examples) > 1 {
		return health.Abbreviate(f.Examples, f.count)
	}
	return f.Subject
}

// group joins findings with the same code and link, with the number of nodes or objects.
func group(all []Finding) []Finding {
	type key struct {
		code cause.Code
		link string
	}
	groups := map[key][]Finding{}
	for _, f := range all {
		k := key{f.Code, f.Link}
		groups[k] = append(groups[k], f)
	}
	var out []Finding
	for _, list := range groups {
		out = append(out, joined(list))
	}
	slices.SortFunc(out, func(a, b Finding) int { return cmp.Compare(a.Code, b.Code) })
	order(out)
	return out
}

// joined returns one finding for several with the same code: the text of the first, and the earliest time.
func joined(list []Finding) Finding {
	slices.SortStableFunc(list, func(a, b Finding) int { return cmp.Compare(a.Subject, b.Subject) })
	f := list[0]
	names, subjects := map[string]bool{}, map[string]bool{}
	for _, other := range list {
		f.breaks = f.breaks || other.breaks
		f.derived = f.derived && other.derived
		if other.node != "" {
			names[other.node] = true
		}
		subjects[other.Subject] = true
		if other.Since != nil && (f.Since == nil || other.Since.Before(*f.Since)) {
			f.Since = other.Since
		}
	}
	if len(names) == 0 {
		names = subjects
	} else {
		f.Nodes = len(names)
	}
	all := slices.Sorted(maps.Keys(names))
	f.Examples, f.count = health.Examples(all), len(all)
	return f
}

// ofPolicies returns the findings of the conditions of ClusterPolicies, and of objects of NVIDIA's GPU Operator.
func (d *diagnosis) ofPolicies() (all []Finding) {
	for _, p := range d.policies {
		for _, c := range p.Status.Conditions {
			code := codeOfCondition(c.Type, c.Reason, string(c.Status))
			if code == "" {
				continue
			}
			f := newFinding(code, "ClusterPolicy "+p.Name, c.Message, "condition "+c.Type+" of the ClusterPolicy").since(c.LastTransitionTime.Time)
			// Objects that are applied stay, so they do not break.
			f.breaks = len(p.Status.Inventory) == 0 && code != cause.ValidationFailed && code != cause.OtherOperator && code != cause.ReconcileFailed
			all = append(all, f)
		}
	}
	if len(d.Others) > 0 && !hasCode(all, cause.OtherOperator) && len(d.policies) > 0 {
		var names []string
		for _, o := range d.Others {
			names = append(names, o.GetKind()+" "+o.GetName())
		}
		f := newFinding(cause.OtherOperator, "the cluster", strings.Join(names, ", ")+" (group nvidia.com)", "objects of the cluster")
		f.breaks = false
		all = append(all, f)
	}
	for _, e := range d.Events {
		if e.InvolvedObject.Kind == "ClusterPolicy" && cause.Code(e.Reason) == cause.LeftBehind {
			all = append(all, newFinding(cause.LeftBehind, "ClusterPolicy "+e.InvolvedObject.Name, e.Message, "Event LeftBehind").since(eventTime(e)))
		}
	}
	return merge(all)
}

// codeOfCondition returns the code of a condition of a ClusterPolicy, or "".
func codeOfCondition(kind, reason, status string) cause.Code {
	switch {
	case kind == model.ConditionReady && status == "False" && (reason == model.ReasonValuesRefused || reason == model.ReasonLabelsMissing):
		return cause.Code(reason)
	case kind == model.ConditionReady && reason == model.ReasonNoGPUNodes:
		return cause.NoGPU
	case kind == model.ConditionDegraded && status == "True" && (reason == model.ReasonReconcileFailed || reason == model.ReasonValidationFailed):
		return cause.Code(reason)
	case kind == model.ConditionOtherOperator && status == "True":
		return cause.OtherOperator
	}
	return ""
}

// ofDaemonSets returns the DaemonSets of agents whose pods cannot be created, for example because admission forbids them.
func (d *diagnosis) ofDaemonSets() (all []Finding) {
	for _, ds := range d.DaemonSets {
		link := linkOfAgent(facts.Agent(ds.Spec.Template.Labels))
		e := d.lastWarning("DaemonSet", ds.Namespace, ds.Name)
		if e == nil || e.Reason != "FailedCreate" || ds.Status.CurrentNumberScheduled >= ds.Status.DesiredNumberScheduled {
			continue
		}
		f := newFinding(cause.AgentMissing, "DaemonSet "+ds.Namespace+"/"+ds.Name, e.Message, "Event FailedCreate of the DaemonSet").since(eventTime(e)).at(link)
		f.Fix = "do what the message says: it names the policy, quota or admission that forbids the pods"
		f.breaks = link != linkAside
		all = append(all, f)
	}
	return all
}

// ofLostPods returns the findings of agents' pods without a node.
func (d *diagnosis) ofLostPods() (all []Finding) {
	for _, p := range d.pods[""] {
		if agent := facts.Agent(p.Labels); agent != "" {
			if f, found := d.ofAgentPod(p, agent); found {
				all = append(all, f)
			}
		}
	}
	return all
}

// maxWaiting is the maximum number of waiting pods that a diagnosis of the whole cluster looks at.
const maxWaiting = 100

// ofWaitingPods returns why pods that request GPUs wait.
func (d *diagnosis) ofWaitingPods() (all []Finding) {
	looked := 0
	for _, p := range d.Pods {
		if p.Status.Phase != corev1.PodPending || facts.Agent(p.Labels) != "" || !facts.RequestsGPU(p) || looked == maxWaiting {
			continue
		}
		looked++
		if found := d.ofUserPod(p); len(found) > 0 {
			f := found[0]
			f.breaks, f.node, f.Nodes = false, "", 0 // the nodes are the cause, or the request is
			all = append(all, f)
		}
	}
	return all
}
