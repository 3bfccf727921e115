package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/pkg/procowner"
)

// Holder is a pod, or a claim, that holds devices for which the pod of the target waits, or a pod that has processes on these GPUs
// without a request.
type Holder struct {
	Node string `json:"node"`
	// Pods lists the pod, or the pods that use the claim, as "namespace/name". It is empty for processes outside of pods.
	Pods []string `json:"pods,omitempty"`
	// Claim is the ResourceClaim, as "namespace/name", and Devices are its devices. Both are empty for a pod without claims.
	Claim   string   `json:"claim,omitempty"`
	Devices []string `json:"devices,omitempty"`
	// Resource is the resource that the pod requests, or the DeviceClass, and Count the number of its devices. Both are empty without a
	// request.
	Resource string `json:"resource,omitempty"`
	Count    int64  `json:"count,omitempty"`
	// Since is nil without a request.
	Since *time.Time `json:"since,omitempty"`
	// Seen says that the processes on the GPUs of the node are known. Processes are those of the pod.
	Seen      bool                   `json:"processesSeen"`
	Processes []procowner.GPUProcess `json:"processes,omitempty"`

	// enough says that the target could have its devices if this pod ended.
	enough bool
}

// idle reports whether no process uses the devices of a pod.
func (h Holder) idle() bool { return h.Seen && len(h.Processes) == 0 }

// heldSince returns when a pod got its devices.
func heldSince(p *corev1.Pod) time.Time {
	if c := podCondition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.UTC()
	}
	return p.CreationTimestamp.UTC()
}

// sortHolders puts the most useful ones first: pods without a process on a GPU, then pods whose end suffices, then the oldest. Processes
// without a request come last.
func sortHolders(all []Holder) {
	since := func(h Holder) time.Time {
		if h.Since == nil {
			return time.Time{}
		}
		return *h.Since
	}
	slices.SortStableFunc(all, func(a, b Holder) int {
		return cmp.Or(
			boolOrder(a.Count > 0, b.Count > 0), boolOrder(a.idle(), b.idle()), boolOrder(a.enough, b.enough),
			since(a).Compare(since(b)), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Claim, b.Claim), slices.Compare(a.Pods, b.Pods), cmp.Compare(a.Resource, b.Resource),
		)
	})
}

// Holding returns the nodes whose agents know which processes hold the devices that a pod waits for: at most maxClose nodes. It does
// not depend on the answers of agents.
func Holding(f facts.Facts, t facts.Target) []string {
	f.Answers = nil
	d := newDiagnosis(f)
	if p := d.byName[t.Namespace+"/"+t.Pod]; p != nil {
		d.ofUserPod(p)
	}
	near, _ := d.holding()
	return near
}

// holding returns the nodes of the holders, of the most useful ones first: those to look at closely, and the others.
func (d *diagnosis) holding() (near, others []string) {
	sortHolders(d.holders)
	var nodes []string
	for _, h := range d.holders {
		if !slices.Contains(nodes, h.Node) && h.Node != "" {
			nodes = append(nodes, h.Node)
		}
	}
	most := min(len(nodes), maxClose)
	return nodes[:most], nodes[most:]
}

// addHolders adds the holders of the devices that the pod of the target waits for, with their processes.
func (d *diagnosis) addHolders(r *Report) {
	near, others := d.holding()
	missed := map[string][]string{} // nodes by reason
	for _, name := range near {
		if why := d.addProcesses(name); why != "" {
			missed[why] = append(missed[why], name)
		}
	}
	if len(others) > 0 {
		missed[fmt.Sprintf("the agents of at most %d nodes are asked", maxClose)] = others
	}
	for _, why := range sortedKeys(missed) {
		r.Unseen = append(r.Unseen, facts.Unseen{What: "processes on the GPUs of " + health.Abbreviate(missed[why], len(missed[why])), Why: why})
	}
	sortHolders(d.holders)
	r.Holders = d.holders
}

// addProcesses adds the processes on the GPUs of a node to its holders. It returns why some of them are not known, or "".
func (d *diagnosis) addProcesses(node string) (why string) {
	list, why := d.processesOn(node)
	if list == nil {
		return why
	}
	for i := range d.holders {
		h := &d.holders[i]
		if h.Node != node {
			continue
		}
		h.Seen = why == ""
		for _, p := range list {
			if slices.Contains(h.Pods, p.PodName()) {
				h.Processes = append(h.Processes, p)
			}
		}
	}
	strangers := map[string][]procowner.GPUProcess{}
	for _, p := range list {
		if !slices.ContainsFunc(d.holders, func(h Holder) bool { return h.Node == node && slices.Contains(h.Pods, p.PodName()) }) {
			strangers[p.PodName()] = append(strangers[p.PodName()], p)
		}
	}
	for _, pod := range sortedKeys(strangers) {
		h := Holder{Node: node, Seen: true, Processes: strangers[pod]}
		if pod != "" {
			h.Pods = []string{pod}
		}
		d.holders = append(d.holders, h)
	}
	return why
}

// who returns the pod, or the claim with its pods.
func (h Holder) who() string {
	pods := health.Abbreviate(h.Pods, len(h.Pods))
	switch {
	case h.Claim == "":
		return pods
	case pods == "":
		return "claim " + h.Claim + " of no pod"
	}
	return "claim " + h.Claim + " of " + pods
}

// line returns a holder for people.
func (h Holder) line(taken time.Time) string {
	var parts []string
	switch {
	case h.Count > 0:
		parts = append(parts, fmt.Sprintf("%s has %d %s since %s", h.who(), h.Count, h.Resource, age(taken, *h.Since)))
		if h.idle() {
			parts = append(parts, "no process uses them")
		}
	case len(h.Pods) > 0:
		parts = append(parts, h.who()+" requests none")
	}
	for i, p := range h.Processes {
		if i == maxProcesses {
			parts = append(parts, fmt.Sprintf("%d more processes", len(h.Processes)-i))
			break
		}
		parts = append(parts, p.String())
	}
	return h.Node + ": " + strings.Join(parts, "; ")
}

// maxProcesses is the maximum number of processes of a holder that are printed for people.
const maxProcesses = 3
