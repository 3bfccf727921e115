package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/pkg/cause"
)

// need is a request of a claim that has no devices.
type need struct {
	// of names the claim and the request for people.
	of, class string
	selectors []resourcev1.DeviceSelector
	// count is the number of devices on one node, or 0 for all that match there.
	count int64
}

// outcome says why a need is not met. Without a code, free devices suffice, or only the scheduler knows the reason.
type outcome struct {
	code    cause.Code
	text    string
	holders []Holder
}

// ofClaims returns why the claims of a pod that waits for a node have no devices. A diagnosis of the whole cluster does not read the
// claims.
func (d *diagnosis) ofClaims(p *corev1.Pod, requests map[string]int64) (all []Finding) {
	if d.closely != nil || d.lacks("DeviceClasses", "deviceclasses.yaml") || d.lacks("ResourceClaims", "resourceclaims.yaml") || d.lacks("ResourceSlices", "resourceslices.yaml") {
		return nil
	}
	add := func(code cause.Code, text string) {
		f := newFinding(code, "pod "+p.Namespace+"/"+p.Name, text, "ResourceClaims, DeviceClasses and ResourceSlices").since(p.CreationTimestamp.Time)
		if !slices.ContainsFunc(all, func(o Finding) bool { return o.Code == f.Code && o.Evidence == f.Evidence }) {
			all = append(all, f)
		}
	}
	var needs [][]need
	for i := range p.Spec.ResourceClaims {
		claim, missing := d.claimOf(p, &p.Spec.ResourceClaims[i])
		if missing != "" {
			add(cause.ClaimMissing, missing)
		}
		if claim != nil && claim.Status.Allocation == nil {
			needs = append(needs, needsOf(claim)...)
		}
	}
	for _, name := range sortedKeys(requests) {
		if class := d.extended(name); class != nil && !d.has(name) {
			needs = append(needs, []need{{of: "the resource " + name, class: class.Name, count: requests[name]}})
		}
	}
	for _, options := range needs {
		if o := d.best(options); o.code != "" {
			add(o.code, o.text)
			d.holders = append(d.holders, o.holders...)
		}
	}
	return all
}

// claimOf returns the claim of a pod, or why it does not exist. It returns neither if the pod needs no claim.
func (d *diagnosis) claimOf(p *corev1.Pod, of *corev1.PodResourceClaim) (claim *resourcev1.ResourceClaim, missing string) {
	name, _, err := resourceclaim.Name(p, of)
	switch {
	case errors.Is(err, resourceclaim.ErrClaimNotFound):
		missing = fmt.Sprintf("%s: no claim was created from the ResourceClaimTemplate %s", of.Name, *of.ResourceClaimTemplateName)
		if e := d.lastWarning("Pod", p.Namespace, p.Name); e != nil && e.Reason == "FailedResourceClaimCreation" {
			return nil, missing + ": " + e.Message
		}
		if d.Taken.Sub(p.CreationTimestamp.Time) < podFromNodeStatus {
			missing = "" // the controller needs a moment
		}
		return nil, missing
	case err != nil, name == nil:
		return nil, ""
	}
	for _, c := range d.Claims {
		if c.Namespace == p.Namespace && c.Name == *name {
			return c, ""
		}
	}
	return nil, fmt.Sprintf("%s: the ResourceClaim %s/%s does not exist", of.Name, p.Namespace, *name)
}

// needsOf returns the requests of a claim, each with the alternatives.
func needsOf(c *resourcev1.ResourceClaim) (all [][]need) {
	counted := func(mode resourcev1.DeviceAllocationMode, count int64) int64 {
		if mode == resourcev1.DeviceAllocationModeAll {
			return 0
		}
		return max(1, count)
	}
	for _, r := range c.Spec.Devices.Requests {
		of := fmt.Sprintf("request %s of the claim %s/%s", r.Name, c.Namespace, c.Name)
		var options []need
		if e := r.Exactly; e != nil && (e.AdminAccess == nil || !*e.AdminAccess) { // with administrative access, devices need not be free
			options = append(options, need{of, e.DeviceClassName, e.Selectors, counted(e.AllocationMode, e.Count)})
		}
		for _, s := range r.FirstAvailable {
			options = append(options, need{of + ", " + s.Name, s.DeviceClassName, s.Selectors, counted(s.AllocationMode, s.Count)})
		}
		if len(options) > 0 {
			all = append(all, options)
		}
	}
	return all
}

// best returns the outcome of the alternative that comes closest.
func (d *diagnosis) best(options []need) (best outcome) {
	closest := func(o outcome) int {
		return slices.Index([]cause.Code{"", cause.GPUsExhausted, cause.RequestTooLarge, cause.NoDeviceMatches, cause.DeviceClassMissing}, o.code)
	}
	for i, n := range options {
		if o := d.outcomeOf(n); i == 0 || closest(o) < closest(best) {
			best = o
		}
	}
	return best
}

// outcomeOf returns why no node has enough free devices for a need.
func (d *diagnosis) outcomeOf(n need) outcome {
	class := d.deviceClass(n.class)
	if class == nil {
		text := fmt.Sprintf("%s: the DeviceClass %s does not exist; the cluster has ", n.of, n.class)
		var names []string
		for _, c := range d.Classes {
			names = append(names, c.Name)
		}
		return outcome{code: cause.DeviceClassMissing, text: text + cmp.Or(strings.Join(names, ", "), "no DeviceClass")}
	}
	matching, why := d.matching(class, n.selectors)
	if len(matching) == 0 {
		return outcome{code: cause.NoDeviceMatches, text: n.of + ": " + why}
	}
	return d.placed(n, matching)
}

// placed looks for a node with enough free devices among those that match.
func (d *diagnosis) placed(n need, matching []device) outcome {
	nodes := map[string][]device{}
	for _, one := range matching {
		nodes[one.node] = append(nodes[one.node], one)
	}
	most, largest := 0, ""
	held := map[string][]Holder{}
	for _, node := range sortedKeys(nodes) {
		devices := nodes[node]
		if len(devices) > most {
			most, largest = len(devices), node
		}
		wanted := int(cmp.Or(n.count, int64(len(devices))))
		if len(devices) < wanted {
			continue
		}
		holders, free := d.claimsOn(n.class, devices, wanted)
		if free >= wanted {
			return outcome{}
		}
		held[node] = holders
	}
	if int64(most) < n.count {
		return outcome{code: cause.RequestTooLarge, text: fmt.Sprintf("%s: it needs %d devices, and the largest node, %s, has %d that match", n.of, n.count, largest, most)}
	}
	o := outcome{code: cause.GPUsExhausted}
	var texts []string
	for _, node := range sortedKeys(held) {
		texts = append(texts, d.heldBy(node, held[node]))
		o.holders = append(o.holders, held[node]...)
	}
	o.text = fmt.Sprintf("%s: it matches %s of the DeviceClass %s on %s, and too few are free: ", n.of, plural(len(matching), "device"), n.class, plural(len(nodes), "node"))
	o.text += strings.Join(texts[:min(len(texts), health.MaxNamed)], "; ")
	return o
}

// claimsOn returns the claims that have devices of a node, and the number of free devices.
func (d *diagnosis) claimsOn(class string, devices []device, wanted int) (holders []Holder, free int) {
	of := map[*resourcev1.ResourceClaim][]string{}
	for _, one := range devices {
		if c := d.allocated()[one.id]; c != nil {
			of[c] = append(of[c], one.id.name)
		} else {
			free++
		}
	}
	for _, c := range d.Claims {
		if len(of[c]) == 0 {
			continue
		}
		h := Holder{Node: devices[0].node, Claim: c.Namespace + "/" + c.Name, Resource: class, Count: int64(len(of[c])), Devices: of[c], Since: new(c.CreationTimestamp.UTC())}
		if at := c.Status.Allocation.AllocationTimestamp; at != nil {
			h.Since = new(at.UTC())
		}
		for _, user := range c.Status.ReservedFor {
			if user.Resource == "pods" {
				h.Pods = append(h.Pods, c.Namespace+"/"+user.Name)
			}
		}
		h.enough = len(of[c]) >= wanted-free
		holders = append(holders, h)
	}
	return holders, free
}

// deviceClass returns a DeviceClass, or nil.
func (d *diagnosis) deviceClass(name string) *resourcev1.DeviceClass {
	for _, c := range d.Classes {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// extended returns the DeviceClass whose devices a resource of a pod stands for, or nil.
func (d *diagnosis) extended(resource string) *resourcev1.DeviceClass {
	for _, c := range d.Classes {
		if c.Spec.ExtendedResourceName != nil && *c.Spec.ExtendedResourceName == resource {
			return c
		}
	}
	return nil
}
