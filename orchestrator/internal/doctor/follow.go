package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/cause"
)

// join removes the findings that follow from the first break, and names them in one line of it. A finding with a
// cause of the kubelet or with its own code does not follow.
func join(all []Finding) []Finding {
	order(all)
	if len(all) == 0 || !all[0].breaks {
		return all
	}
	first := &all[0]
	var rest []Finding
	var follows []string
	for _, f := range all[1:] {
		if f.derived && rank(f.Link) >= rank(first.Link) && f.Link != linkAside {
			if name := fmt.Sprintf("%s (%s)", f.Code, f.Link); !slices.Contains(follows, name) && f.Code != first.Code {
				follows = append(follows, name)
			}
			continue
		}
		rest = append(rest, f)
	}
	first.Follows = strings.Join(follows, ", ")
	if after := chain()[min(max(rank(first.Link)-1, 0), len(chain())):]; len(after) > 0 && rank(first.Link) < rank(linkAside) {
		text := "not evaluated: the links " + after[0] + " to " + after[len(after)-1]
		if len(after) == 1 {
			text = "not evaluated: the link " + after[0]
		}
		first.Follows = strings.TrimPrefix(first.Follows+"; "+text, "; ")
	}
	return append([]Finding{*first}, rest...)
}

// merge removes a finding whose code another finding of the same link or subject has, and keeps the finding with more
// detail.
func merge(all []Finding) []Finding {
	var out []Finding
	for _, f := range all {
		at := slices.IndexFunc(out, func(o Finding) bool {
			return o.Code == f.Code && (o.node == f.node && f.node != "" && o.Link == f.Link || o.Subject == f.Subject)
		})
		switch {
		case at < 0:
			out = append(out, f)
		case out[at].derived && !f.derived:
			out[at] = f
		}
	}
	return out
}

// chainOf returns the states of the links of a node.
func (d *diagnosis) chainOf(n *corev1.Node, all []Finding) []Link {
	var links []Link
	broken := -1
	for _, f := range all {
		if at := rank(f.Link); f.breaks && (broken < 0 || at < broken) {
			broken = at
		}
	}
	offered, _ := d.compact[n.Name].GPUs()
	for _, name := range chain() {
		l := Link{Name: name, State: Unknown}
		at := slices.IndexFunc(all, func(f Finding) bool { return f.Link == name && (f.breaks || !harmless(f.Code)) })
		switch {
		case at >= 0:
			l.State, l.Code = Broken, all[at].Code
		case broken >= 0 && rank(name) > broken:
			l.State = Follows
		case d.holds(n, name, offered):
			l.State = OK
		}
		if broken >= 0 && rank(name) > broken {
			l.State = Follows
		}
		links = append(links, l)
	}
	return links
}

// holds reports whether a fact says that a link works.
func (d *diagnosis) holds(n *corev1.Node, link string, offered int64) bool {
	ready := d.compact[n.Name].GPUReady == "True"
	switch link {
	case linkContainer, linkCUDA:
		return ready && slices.ContainsFunc(d.pods[n.Name], func(p *corev1.Pod) bool {
			return facts.RequestsGPU(p) && p.Status.Phase == corev1.PodRunning
		}) && link == linkContainer
	case linkScheduler:
		return offered > 0 && !n.Spec.Unschedulable
	}
	return ready || offered > 0 || d.shown(n, link)
}

// shown reports whether something shows that a link works on a node whose GPUs cannot be used: the label of a GPU, a later link
// that the condition GPUReady names as the first one that does not work, or a ready pod of the agent of the link.
func (d *diagnosis) shown(n *corev1.Node, link string) bool {
	m := d.compact[n.Name]
	first := cause.Code(m.Reason)
	if link == linkPCI && m.HasGPU() || m.GPUReady != "" && first.Row().Section == "node" && rank(link) < rank(linkOf(first)) {
		return true
	}
	return slices.ContainsFunc(d.pods[n.Name], func(p *corev1.Pod) bool { return linkOfAgent(facts.Agent(p.Labels)) == link && facts.Ready(p) })
}

func hasCode(all []Finding, code cause.Code) bool {
	return slices.ContainsFunc(all, func(f Finding) bool { return f.Code == code })
}

func contains(list []string, word string) bool { return slices.Contains(list, word) }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
