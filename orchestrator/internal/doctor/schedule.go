package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/pkg/cause"
)

// ofUnscheduled returns why a pod fits no node. Each reason keeps the nodes that it concerns from the next one, so
// the first finding concerns the nodes that come closest. If nothing about GPUs keeps the pod from a node, the scheduler has
// another reason, which is first.
func (d *diagnosis) ofUnscheduled(p *corev1.Pod) []Finding {
	subject := "pod " + p.Namespace + "/" + p.Name
	scheduled := podCondition(p, corev1.PodScheduled)
	message := ""
	if scheduled != nil {
		message = scheduled.Message
		if scheduled.Reason == corev1.PodReasonSchedulingGated {
			var gates []string
			for _, g := range p.Spec.SchedulingGates {
				gates = append(gates, g.Name)
			}
			return []Finding{newFinding(cause.SchedulingGated, subject, "the gates "+strings.Join(gates, ", "), "spec.schedulingGates of the pod").since(p.CreationTimestamp.Time)}
		}
	}
	requests := facts.Requests(p)
	s := &search{d: d, p: p, subject: subject, source: "spec of the pod and the nodes", message: message}
	for _, resource := range sortedKeys(requests) {
		if f, found := s.missing(resource, requests[resource]); found {
			return []Finding{f.since(p.CreationTimestamp.Time)}
		}
	}
	if d.lacksClass(p) {
		return []Finding{d.withoutClass(p)}
	}
	if found := d.ofClaims(p, requests); len(found) > 0 {
		return found
	}
	found, suits := s.nodes(requests)
	if (suits || len(found) == 0) && message != "" {
		f := newFinding(cause.Unschedulable, subject, message, "condition PodScheduled of the pod").at(linkScheduler)
		f.Fix = "free the resource that the message names, or change the requests or the constraints of the pod"
		found = append([]Finding{f}, found...)
	}
	for i := range found {
		found[i] = found[i].since(p.CreationTimestamp.Time)
	}
	return found
}

func podCondition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// search looks for a node for a pod.
type search struct {
	d               *diagnosis
	p               *corev1.Pod
	subject, source string
	// message is the reason of the scheduler, or "".
	message string
}

// missing returns the finding for a resource that no node has in this number.
func (s *search) missing(resource string, count int64) (Finding, bool) {
	most := int64(0)
	known := false
	for _, n := range s.d.Nodes {
		capacity, has := n.Status.Capacity[corev1.ResourceName(resource)]
		known = known || has && !capacity.IsZero()
		most = max(most, capacity.Value())
	}
	text := fmt.Sprintf("it requests %d %s", count, resource)
	profile, isMIG := strings.CutPrefix(resource, facts.ResourcePrefix+"mig-")
	switch {
	case len(s.d.Nodes) == 0:
		return Finding{}, false
	case known && most >= count, !known && s.d.extended(resource) != nil:
		return Finding{}, false
	case known:
		return newFinding(cause.RequestTooLarge, s.subject, fmt.Sprintf("%s, and the largest node has %d", text, most), s.source), true
	case s.d.has(resource + ".shared"):
		return newFinding(cause.ResourceShared, s.subject, text+", and the nodes offer "+resource+".shared", s.source), true
	case isMIG:
		return newFinding(cause.MIGProfileMissing, s.subject, text+"; the cluster offers "+s.d.offers()+s.d.couldHave(profile), s.source), true
	}
	return newFinding(cause.ResourceUnknown, s.subject, text+s.d.meant(resource)+"; the cluster offers "+s.d.offers(), s.source), true
}

// nodes returns the reasons that keep the pod from the nodes with its resources, and whether a node suits it as far as GPUs
// are concerned. A pod that requests none, such as a pod with claims, suits none.
func (s *search) nodes(requests map[string]int64) (found []Finding, suits bool) {
	if len(requests) == 0 {
		return nil, false
	}
	reasons := map[cause.Code][]string{}
	details := map[cause.Code][]string{}
	add := func(code cause.Code, node, detail string) {
		reasons[code] = append(reasons[code], node)
		if detail != "" && !slices.Contains(details[code], detail) {
			details[code] = append(details[code], detail)
		}
	}
	required := nodeaffinity.GetRequiredNodeAffinity(s.p)
	full := s.d.closely != nil && s.full(requests)
	for _, n := range s.d.Nodes {
		if !offersAll(n, requests) {
			continue
		}
		matches, err := required.Match(n)
		taint := untolerated(n, s.p.Spec.Tolerations)
		var holders []Holder
		if s.d.closely == nil { // otherwise the pods of most nodes are not known
			holders = s.held(n, requests)
		}
		switch {
		case err != nil || !matches:
			add(cause.NodesNotSelected, n.Name, s.selector())
		case taint != nil && taint.Key == gateTaint, s.d.compact[n.Name].NotReady:
			add(cause.NodesNotUsable, n.Name, s.d.firstCause(n))
		case n.Spec.Unschedulable:
			add(cause.NodeCordoned, n.Name, "")
		case taint != nil:
			add(cause.TaintNotTolerated, n.Name, taint.ToString())
		case !allocatable(n, requests):
			add(cause.NodesNotUsable, n.Name, s.d.firstCause(n))
		case full:
			add(cause.GPUsExhausted, n.Name, s.message)
		case len(holders) > 0:
			add(cause.GPUsExhausted, n.Name, s.d.heldBy(n.Name, holders))
			s.d.holders = append(s.d.holders, holders...)
		default:
			suits = true
		}
	}
	return s.findings(reasons, details), suits
}

// findings returns a finding for each reason: the nodes that come closest to run the pod are first.
func (s *search) findings(reasons, details map[cause.Code][]string) (all []Finding) {
	for _, code := range []cause.Code{
		cause.GPUsExhausted, cause.NodesNotUsable, cause.NodeCordoned, cause.TaintNotTolerated, cause.NodesNotSelected,
	} {
		nodes := reasons[code]
		if len(nodes) == 0 {
			continue
		}
		text := health.Abbreviate(nodes, len(nodes))
		if code == cause.GPUsExhausted || code == cause.NodesNotUsable {
			text = plural(len(nodes), "node") // the details name them
		}
		if detail := details[code]; len(detail) > 0 {
			// With one node, the detail need not name it again.
			text += ": " + strings.TrimPrefix(strings.Join(detail[:min(len(detail), health.MaxNamed)], "; "), text+": ")
		}
		f := newFinding(code, s.subject, text, s.source)
		f.Fix = strings.ReplaceAll(f.Fix, "NODE", nodes[0])
		f.Nodes, f.Examples = len(nodes), health.Examples(nodes)
		f.breaks = true
		all = append(all, f)
	}
	return all
}

// selector returns the node selector and the affinity of the pod for people.
func (s *search) selector() string {
	var parts []string
	for _, key := range sortedKeys(s.p.Spec.NodeSelector) {
		parts = append(parts, key+"="+s.p.Spec.NodeSelector[key])
	}
	if a := s.p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, e := range slices.Concat(term.MatchExpressions, term.MatchFields) {
				parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ","))))
			}
		}
	}
	return "the pod selects " + strings.Join(parts, ", ")
}
