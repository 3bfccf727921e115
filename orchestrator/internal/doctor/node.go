package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/cause"
)

// node adds the diagnosis of one node.
func (d *diagnosis) node(r *Report, name string) {
	n := d.nodes[name]
	if n == nil {
		r.Verdict, r.blind = "node "+name+" could not be read", true
		return
	}
	d.whole = map[string]bool{name: true}
	r.Findings = d.ofNode(n)
	r.Findings = append(r.Findings, d.ofPolicies()...)
	r.Findings = join(r.Findings)
	r.Chain = d.chainOf(n, r.Findings)
	r.Verdict = d.verdictOfNode(n, r.Findings)
}

func (d *diagnosis) verdictOfNode(n *corev1.Node, all []Finding) string {
	offered, capacity := d.compact[n.Name].GPUs()
	devices := fmt.Sprintf("%d of %d GPUs or MIG devices can be allocated", offered, capacity)
	switch {
	case len(all) == 0:
		return fmt.Sprintf("node %s works: %s", n.Name, devices)
	case !all[0].breaks:
		return fmt.Sprintf("node %s works, with %s: %s", n.Name, plural(len(all), "finding"), devices)
	}
	return fmt.Sprintf("node %s: the chain breaks at the link %s: %s", n.Name, all[0].Link, all[0].Code)
}

// ofNode returns all findings about a node, in order.
func (d *diagnosis) ofNode(n *corev1.Node) []Finding {
	m := d.compact[n.Name]
	trouble, unusable := health.NodeTrouble(m)
	ready := d.ofReady(n, m, trouble, unusable)
	if m.NotReady {
		return ready // the state of everything else is unknown
	}
	all, fails := d.ofAgents(n)
	if !unusable {
		all = slices.DeleteFunc(all, d.isStarting)
	}
	all = append(all, d.ofChanges(n)...)
	all = append(all, ready...)
	all = append(all, ofLabels(n, unusable)...)
	all = append(all, d.ofEvents(n, unusable)...)
	if d.close(n.Name) {
		all = append(all, unreported(d.ofAnswers(n), all)...)
	}
	all = append(all, d.ofProblems(n, all)...)
	if unusable && !fails && d.close(n.Name) {
		all = append(all, d.ofMissingAgents(n)...)
	}
	for i := range all {
		all[i].breaks = all[i].breaks && (unusable || all[i].Link == linkNode)
	}
	if unusable && !slices.ContainsFunc(all, func(f Finding) bool { return f.breaks }) {
		all = append(all, d.ofUnserved(n))
	}
	all = merge(all)
	order(all)
	return all
}

// isStarting reports whether a pod has only begun to start or end, as in each rollout.
func (d *diagnosis) isStarting(f Finding) bool {
	return f.Severity == cause.Starts && f.Since != nil && d.Taken.Sub(*f.Since) < health.Patience
}

// ofReady returns the findings of the conditions of a node, and of its allocatable GPUs.
func (d *diagnosis) ofReady(n *corev1.Node, m *model.Node, t health.Trouble, unusable bool) (all []Finding) {
	switch {
	case t.Code == cause.NodeNotReady:
		message := t.Text
		if c := condition(n, string(corev1.NodeReady)); c != nil {
			message = strings.TrimSpace(c.Reason + ": " + c.Message)
		}
		all = append(all, ofNode(cause.NodeNotReady, n.Name, message, "condition Ready of the Node").since(t.Since))
	case m.GPUReady != "" && m.GPUReady != "True":
		f := ofNode(known(t.Code, cause.PluginNotReady), n.Name, withoutFix(t.Text, t.Fix), "condition GPUReady of the Node").withFix(t.Fix).since(t.Since)
		f.derived, f.breaks = t.Severity != cause.Fails, true
		all = append(all, f)
	case t.Code != "":
		f := ofNode(t.Code, n.Name, t.Text, "status.allocatable of the Node").since(t.Since)
		f.derived = true
		all = append(all, f.at(linkAllocatable))
	case unusable && !m.HasGPU():
		all = append(all, ofNode(cause.NoGPU, n.Name, "the Node has no label of a GPU, such as nvidia.com/gpu.present=true, and no resource nvidia.com/*", "labels of the Node"))
	}
	if c := condition(n, "GPUOptionalModulesLoaded"); c != nil && c.Status == corev1.ConditionFalse {
		all = append(all, ofNode(known(cause.Code(c.Reason), cause.ModuleNotLoaded), n.Name, c.Message, "condition GPUOptionalModulesLoaded of the Node").since(c.LastTransitionTime.Time))
	}
	return all
}

// withoutFix returns a message without the fix at its end.
func withoutFix(message, fix string) string { return strings.TrimSuffix(message, "; "+fix) }

// known returns a code of the table, or the other one.
func known(code, other cause.Code) cause.Code {
	if code.Row().Section == "" {
		return other
	}
	return code
}

func condition(n *corev1.Node, kind string) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if string(n.Status.Conditions[i].Type) == kind {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// deploy begins the labels that keep agents off a node (NVIDIA's GPU Operator).
const deploy = "nvidia.com/gpu.deploy."

// ofLabels returns the findings of labels that keep agents off the node, and of a cordon.
func ofLabels(n *corev1.Node, unusable bool) (all []Finding) {
	changing := (model.Node{Labels: n.Labels}).Changing()
	for _, key := range sortedKeys(n.Labels) {
		agent, is := strings.CutPrefix(key, deploy)
		value := n.Labels[key]
		switch {
		case !is || !unusable:
		case value == "false" && (agent == "operands" || rank(linkOfAgent(deployed(agent))) < rank(linkAside)):
			f := ofNode(cause.NodeOptedOut, n.Name, key+"=false", "labels of the Node")
			if agent != "operands" {
				f = f.at(linkOfAgent(deployed(agent)))
			}
			all = append(all, f)
		case strings.Contains(value, "paused-for-") && !changing:
			all = append(all, ofNode(cause.NodePaused, n.Name, key+"="+value, "labels of the Node").at(linkOfAgent(deployed(agent))))
		}
	}
	if n.Spec.Unschedulable {
		all = append(all, ofNode(cause.NodeCordoned, n.Name, "spec.unschedulable is true", "spec of the Node").at(linkScheduler))
	}
	return all
}

// deployed returns the agent of a label nvidia.com/gpu.deploy.*.
func deployed(name string) string {
	switch name {
	case "driver":
		return facts.DriverLoader
	case "gpu-feature-discovery":
		return facts.FeatureDiscovery
	}
	return name
}

// ofChanges returns the findings of a driver upgrade and of a MIG change.
func (d *diagnosis) ofChanges(n *corev1.Node) (all []Finding) {
	const why, source = "outrigger.dev/driver-upgrade-cause", "annotation outrigger.dev/driver-upgrade-cause of the Node"
	state, text := n.Labels["nvidia.com/gpu-driver-upgrade-state"], n.Annotations[why]
	found := cause.Parse(text, "driver", "upgrade")
	for _, c := range found {
		all = append(all, ofNode(c.Code, n.Name, c.Text, source).withFix(c.Fix))
	}
	label := "label nvidia.com/gpu-driver-upgrade-state=" + state + " of the Node"
	switch {
	case len(found) > 0:
	case state == "upgrade-failed":
		all = append(all, ofNode(cause.UpgradeFailed, n.Name, text, label))
	case (model.Node{Labels: map[string]string{"nvidia.com/gpu-driver-upgrade-state": state}}).Changing():
		all = append(all, ofNode(cause.UpgradeInProgress, n.Name, "state "+state, label))
	}
	code := map[string]cause.Code{
		"pending": cause.MIGConfigWaiting, "rebooting": cause.MIGConfigRebooting, "failed": cause.MIGConfigFailed,
	}[n.Labels["nvidia.com/mig.config.state"]]
	if code != "" {
		text := "config " + n.Labels["nvidia.com/mig.config"] + ": " + n.Annotations["outrigger.dev/mig-config-cause"]
		all = append(all, ofNode(code, n.Name, strings.TrimSuffix(text, ": "), "label nvidia.com/mig.config.state and annotation outrigger.dev/mig-config-cause of the Node"))
	}
	return all
}

// ofProblems returns the problems of ClusterPolicies that name the node, without the codes that it has already.
func (d *diagnosis) ofProblems(n *corev1.Node, have []Finding) (all []Finding) {
	for _, p := range d.policies {
		for _, problem := range p.Status.Problems {
			code := cause.Code(problem.Cause)
			if code.Row().Section == "" || !contains(problem.Examples, n.Name) || hasCode(have, code) || onlyHere(code) {
				continue
			}
			f := ofNode(code, n.Name, problem.Message, "status.problems of the ClusterPolicy "+p.Name).withFix(problem.Fix).since(problem.Since.Time)
			if code.Row().Section == "pod" {
				f = f.at(linkOfAgent(problem.Stage))
			}
			all = append(all, f)
		}
	}
	return all
}

// onlyHere reports whether the Node itself says whether it has a cause now. The status of a policy may be older.
func onlyHere(code cause.Code) bool {
	return code.Row().Section == "node" || code == cause.NodeNotReady || code == cause.NoGPU
}
