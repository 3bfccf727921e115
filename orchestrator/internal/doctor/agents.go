package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/pkg/cause"
)

// ofAgents returns the findings of the agents' pods on a node. known says that an agent fails there.
func (d *diagnosis) ofAgents(n *corev1.Node) (all []Finding, fails bool) {
	for _, p := range d.pods[n.Name] {
		agent := facts.Agent(p.Labels)
		if agent == "" {
			continue
		}
		if f, found := d.ofAgentPod(p, agent); found {
			all = append(all, f)
			fails = fails || f.Severity == cause.Fails
		}
	}
	return all, fails
}

// ofAgentPod returns the finding of a pod of an agent that is not ready, or crashes.
func (d *diagnosis) ofAgentPod(p *corev1.Pod, agent string) (Finding, bool) {
	m := observe.PodOf(p)
	if m == nil || m.Ready && !d.Taken.Before(m.Loops) || m.Phase == string(corev1.PodSucceeded) {
		return Finding{}, false
	}
	f := d.ofPod(p, m)
	f.derived = f.Severity != cause.Fails
	return f.at(linkOfAgent(agent)), true
}

// ofPod returns the finding of a pod that is not ready.
func (d *diagnosis) ofPod(p *corev1.Pod, m *model.Pod) Finding {
	t, _ := health.PodTrouble(m, !m.Loops.IsZero() && d.Taken.Before(m.Loops))
	code := known(t.Code, cause.ContainerCreating)
	if m.Phase == string(corev1.PodFailed) {
		code = known(t.Code, cause.PodFailed)
	}
	message, source := cmp.Or(t.Text, code.Row().Meaning), "status of the pod"
	// The kubelet reports the reason of a container that has not started only as an Event.
	if code == cause.ContainerCreating {
		if e := d.lastWarning("Pod", p.Namespace, p.Name); e != nil {
			message, source = e.Message, "Event "+e.Reason+" of the pod"
			if e.Reason == "FailedCreatePodSandBox" {
				code = cause.CreatePodSandboxError
			}
		}
	}
	f := newFinding(code, "pod "+p.Namespace+"/"+p.Name, message, source).since(m.Since)
	if t.Fix == "" || code == cause.CreatePodSandboxError {
		t.Fix = code.Row().Fix
	}
	f.Fix = strings.NewReplacer("NAMESPACE", p.Namespace, "POD", p.Name).Replace(t.Fix)
	if said := d.saidReady(p); said != "" && code == cause.NotReady {
		f.Evidence, f.Source = health.SingleLine(said, health.MaxMessage), "/readyz of the pod"
	}
	f.node = p.Spec.NodeName
	return f
}

// saidReady returns the answer of an agent that is not ready, or "".
func (d *diagnosis) saidReady(p *corev1.Pod) string {
	for _, a := range d.answers[p.Spec.NodeName] {
		if d.close(p.Spec.NodeName) && a.Pod == p.Name && slices.Contains(a.Command, "readyz") {
			_, said, _ := strings.Cut(a.Error, readyFails)
			return said
		}
	}
	return ""
}

// readyFails precedes the answer of an agent that is not ready, in the error of the command probe.
const readyFails = "readyz answers 503: "

// lastWarning returns the newest Warning about an object, or nil. A Warning about cluster DNS is no reason: the kubelet
// starts the pod.
func (d *diagnosis) lastWarning(kind, namespace, name string) *corev1.Event {
	for _, e := range slices.Backward(d.events[eventKey(kind, namespace, name)]) {
		if e.Type == corev1.EventTypeWarning && e.Reason != "MissingClusterDNS" && e.Reason != "DNSConfigForming" {
			return e
		}
	}
	return nil
}

// podFromNodeStatus is how old a Node, or a Pod, must be before a missing pod, or claim, is a finding: controllers make them within
// seconds.
const podFromNodeStatus = time.Minute

// ofMissingAgents returns the agents without a pod on a node whose DaemonSet would select it but for a taint. It
// needs all pods of the agents on the node.
func (d *diagnosis) ofMissingAgents(n *corev1.Node) (all []Finding) {
	if d.Taken.Sub(n.CreationTimestamp.Time) < podFromNodeStatus || !d.complete(n.Name) {
		return nil
	}
	for _, ds := range d.DaemonSets {
		agent := facts.Agent(ds.Spec.Template.Labels)
		link := linkOfAgent(agent)
		if link == linkAside || d.hasAgent(n.Name, ds.Name) || !selects(ds, n) {
			continue
		}
		evidence := fmt.Sprintf("the DaemonSet %s/%s has no pod on the node", ds.Namespace, ds.Name)
		if e := d.lastWarning("DaemonSet", ds.Namespace, ds.Name); e != nil && e.Reason == "FailedCreate" {
			evidence += ": " + e.Message
		}
		if taint := untolerated(n, ds.Spec.Template.Spec.Tolerations); taint != nil {
			evidence += ", which has the taint " + taint.ToString()
		}
		all = append(all, ofNode(cause.AgentMissing, n.Name, evidence, "pods of the node").at(link))
	}
	return all
}

// selects reports whether a DaemonSet selects a node, whose taints can still keep its pods off.
func selects(ds *appsv1.DaemonSet, n *corev1.Node) bool {
	spec := ds.Spec.Template.Spec
	matches, err := nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity).Match(n)
	return err == nil && matches
}

// complete reports whether all pods of agents on a node are known: the pods of the node were read, or a ready one is known.
func (d *diagnosis) complete(node string) bool {
	if d.whole[node] && !d.lacks("pods of the node "+node) && !d.lacks("pods", "pods.yaml", "gpu_operand_pods.yaml") {
		return true
	}
	return slices.ContainsFunc(d.pods[node], func(p *corev1.Pod) bool { return facts.Agent(p.Labels) != "" && observe.PodOf(p) == nil })
}

func (d *diagnosis) hasAgent(node, daemonSet string) bool {
	for _, p := range d.pods[node] {
		if owner := metav1.GetControllerOf(p); owner != nil && owner.Name == daemonSet {
			return true
		}
	}
	return false
}
