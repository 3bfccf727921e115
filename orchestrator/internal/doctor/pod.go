package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/pkg/cause"
)

// pod adds the diagnosis of one pod, with its node.
func (d *diagnosis) pod(r *Report, t facts.Target) {
	p := d.byName[t.Namespace+"/"+t.Pod]
	if p == nil {
		d.absent(r, t)
		return
	}
	own := d.ofUserPod(p)
	d.addHolders(r)
	// A pod that requests no GPU can be on any node, so the GPUs of its node explain nothing.
	if n := d.nodes[p.Spec.NodeName]; n != nil && p.Spec.NodeName != "" && !hasCode(own, cause.NoGPURequested) {
		d.whole = map[string]bool{n.Name: true}
		own = append(own, slices.DeleteFunc(d.ofNode(n), func(f Finding) bool { return informs(f) || !f.breaks && f.Code.Row().Section != "device" })...)
		own = join(own)
		r.Chain = d.chainOf(n, own)
	}
	r.Findings = append(r.Findings, own...)
	if len(own) == 0 {
		r.Verdict = t.String() + " has its GPUs: nothing found"
		return
	}
	r.Verdict = fmt.Sprintf("%s: %s: %s", t, own[0].Code, own[0].Code.Row().Meaning)
	if !own[0].breaks {
		r.Verdict = t.String() + " may use a GPU with a finding: " + string(own[0].Code)
	}
}

// absent adds the diagnosis of a pod that does not exist, or was not read.
func (d *diagnosis) absent(r *Report, t facts.Target) {
	r.Verdict = t.String() + " does not exist"
	if found := d.ofAbsentPod(t); len(found) > 0 {
		r.Findings = found
		r.Verdict += ": " + string(found[0].Code)
		return
	}
	r.blind = true
	if d.lacks("pods", "pods.yaml", "gpu_operand_pods.yaml") || d.lacks("pods outside of the namespace of NVIDIA's GPU Operator") {
		r.Verdict = t.String() + " could not be read"
		return
	}
	r.Notes = append(r.Notes, "the namespace "+t.Namespace+" has no pod "+t.Pod+", and no Event says that one could not be created")
}

// ofUserPod returns why a pod has no GPU.
func (d *diagnosis) ofUserPod(p *corev1.Pod) []Finding {
	if p.Spec.NodeName == "" && p.DeletionTimestamp == nil {
		return d.ofUnscheduled(p)
	}
	var all []Finding
	if f, found := d.ofState(p); found {
		all = append(all, f)
	}
	return append(all, d.ofContainers(p)...)
}

// ofState returns the finding of the pod's state: a reason of the kubelet.
func (d *diagnosis) ofState(p *corev1.Pod) (Finding, bool) {
	subject := "pod " + p.Namespace + "/" + p.Name
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		return Finding{}, false
	case p.Status.Reason == "UnexpectedAdmissionError" && strings.Contains(p.Status.Message, tooManyShared):
		return newFinding(cause.SharedRequestTooLarge, subject, p.Status.Message, "status of the pod").since(p.CreationTimestamp.Time), true
	}
	reason, message := observe.PodReason(p)
	// With another reason, the sandbox of the pod exists, so the RuntimeClass did.
	if d.lacksClass(p) && p.Status.Phase == corev1.PodPending && (reason == "" || reason == string(cause.ContainerCreating)) {
		return d.withoutClass(p), true
	}
	if reason == "" && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
		return Finding{}, false
	}
	m := &model.Pod{
		Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Phase: string(p.Status.Phase), Reason: reason, Message: message,
		Since: p.CreationTimestamp.UTC(), Deleting: p.DeletionTimestamp != nil,
	}
	f := d.ofPod(p, m)
	if f.Code == cause.NotReady {
		return Finding{}, false // a program is not ready for its own reasons
	}
	if f.Code == cause.CreatePodSandboxError || f.Code == cause.CreateContainerError || f.Code == cause.RunContainerError {
		f.Link = linkRuntime
	}
	return f.withFix(fixOfUser(f.Code, p.Namespace, message+f.Evidence)), true
}

// tooManyShared is the error of a device plugin, ours or NVIDIA's, for several replicas of a shared GPU.
const tooManyShared = "maximum request size for shared resources is 1"

// fixOfUser returns the fix for a pod of a user, or "" if the fix in the table of causes holds for it. The table has the
// fixes for pods of agents.
func fixOfUser(code cause.Code, namespace, message string) string {
	switch code { //nolint:exhaustive // the table has the others
	case cause.ImagePullBackOff, cause.InvalidImageName, cause.ErrImageNeverPull:
		return "correct image, imagePullPolicy or imagePullSecrets of the pod, or let the node reach the registry"
	case cause.OOMKilled:
		return "raise resources.limits.memory of the container"
	case cause.CreateContainerConfigError:
		return "create the ConfigMap or Secret that the message names in namespace " + namespace + ", or correct the pod"
	case cause.PodFailed:
		return "do what the message says; a pod without a controller must be deleted and created again"
	case cause.CreatePodSandboxError:
		if strings.Contains(message, "no runtime for") {
			return "the container engine of the node does not have the runtime of the RuntimeClass: see the log of the container toolkit there"
		}
	}
	return ""
}

// class returns the handler of a RuntimeClass, or "".
func (d *diagnosis) class(name string) string {
	for _, c := range d.RuntimeClasses {
		if c.Name == name {
			return c.Handler
		}
	}
	return ""
}

// lacksClass reports whether the RuntimeClass of a pod does not exist. A RuntimeClass that could not be read may exist.
func (d *diagnosis) lacksClass(p *corev1.Pod) bool {
	class := p.Spec.RuntimeClassName
	return class != nil && d.class(*class) == "" && !d.lacks("RuntimeClasses", "runtimeclasses.yaml")
}

// withoutClass returns the finding for a pod whose RuntimeClass does not exist.
func (d *diagnosis) withoutClass(p *corev1.Pod) Finding {
	text := "runtimeClassName is " + *p.Spec.RuntimeClassName + ", and "
	if len(d.RuntimeClasses) == 0 {
		text += "the cluster has no RuntimeClass"
	} else {
		var names []string
		for _, c := range d.RuntimeClasses {
			names = append(names, c.Name)
		}
		slices.Sort(names)
		text += "the cluster has " + strings.Join(names, ", ")
	}
	return newFinding(cause.RuntimeClassMissing, "pod "+p.Namespace+"/"+p.Name, text, "spec of the pod, and RuntimeClasses").since(p.CreationTimestamp.Time)
}

// ofContainers returns why the containers of a pod that has a node see no GPU.
func (d *diagnosis) ofContainers(p *corev1.Pod) (all []Finding) {
	subject, source := "pod "+p.Namespace+"/"+p.Name, "spec of the pod"
	if !facts.RequestsGPU(p) && len(p.Spec.ResourceClaims) == 0 {
		return []Finding{newFinding(cause.NoGPURequested, subject, "no container has a limit of a resource nvidia.com/*", source)}
	}
	if class := p.Spec.RuntimeClassName; class != nil {
		switch handler := d.class(*class); {
		case d.lacksClass(p) && p.Status.Phase != corev1.PodPending:
			all = append(all, d.withoutClass(p))
		case handler != "" && !strings.Contains(handler, "nvidia"):
			all = append(all, newFinding(cause.RuntimeClassWrong, subject, "runtimeClassName is "+*class+", whose handler is "+handler, source))
		}
	}
	for i := range p.Spec.Containers {
		for _, v := range p.Spec.Containers[i].Env {
			if v.Name == facts.VisibleDevices && (v.Value == "void" || v.Value == "none" || v.Value == "" && v.ValueFrom == nil) {
				all = append(all, newFinding(cause.GPUsHidden, subject, fmt.Sprintf("container %s has NVIDIA_VISIBLE_DEVICES=%s", p.Spec.Containers[i].Name, v.Value), source))
			}
		}
	}
	return all
}

// ofAbsentPod returns why a pod could not be created: its owner, such as a ReplicaSet or a Job, has the Event.
func (d *diagnosis) ofAbsentPod(t facts.Target) (all []Finding) {
	for _, e := range slices.Backward(d.Events) {
		owner := e.InvolvedObject
		if e.Reason != "FailedCreate" || owner.Namespace != t.Namespace || owner.Name != t.Pod && !strings.HasPrefix(owner.Name, t.Pod+"-") && !strings.HasPrefix(t.Pod, owner.Name+"-") {
			continue
		}
		code := cause.Code("")
		switch {
		case strings.Contains(e.Message, "exceeded quota"), strings.Contains(e.Message, "failed quota"):
			code = cause.QuotaExceeded
		case strings.Contains(e.Message, "RuntimeClass"):
			code = cause.RuntimeClassMissing
		}
		if code != "" {
			subject := strings.ToLower(owner.Kind) + " " + owner.Namespace + "/" + owner.Name
			all = append(all, newFinding(code, subject, e.Message, "Event FailedCreate of the "+owner.Kind).since(eventTime(e)))
		}
	}
	return merge(all)
}
