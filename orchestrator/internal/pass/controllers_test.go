package pass_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/model"
)

// tick lets controllers and kubelets do some of what they have to do.
func (c *cluster) tick() {
	c.now = c.now.Add(time.Second)
	for _, ref := range slices.SortedFunc(maps.Keys(c.objects), func(a, b model.Ref) int { return cmp.Compare(a.String(), b.String()) }) {
		o := c.objects[ref]
		if ref.Kind == "DaemonSet" {
			c.control(o)
		}
		if o.deleting && len(o.pods) == 0 && !c.chance(3) {
			delete(c.objects, ref)
			delete(c.applied, ref)
		}
	}
	for name, p := range c.checks {
		if p.Deleting {
			delete(c.checks, name)
		} else if !c.chance(3) {
			p.Phase = "Succeeded"
			c.checks[name] = p
		}
	}
}

// control is the DaemonSet controller, and the kubelets.
func (c *cluster) control(o *object) {
	if c.chance(3) {
		return
	}
	if o.deleting {
		clear(o.pods)
		return
	}
	o.seen = o.generation
	for _, n := range c.nodes {
		p, ok := o.pods[n.name]
		switch {
		case n.gpu && !ok:
			o.pods[n.name] = &pod{generation: o.seen}
		case !n.gpu:
			delete(o.pods, n.name)
		case p.generation != o.seen && !c.chance(2):
			o.pods[n.name] = &pod{generation: o.seen}
		case !p.ready && !n.broken && !o.bad(c.bad) && !c.chance(2):
			p.ready = true
		}
	}
}

// drop forgets failures of objects that the plan is not about, as the controller does.
func (c *cluster) drop(plan model.Plan) {
	maps.DeleteFunc(c.failures, func(r model.Ref, _ string) bool {
		return !slices.ContainsFunc(plan.Apply, func(a model.Apply) bool { return model.RefOf(a.Object) == r })
	})
}

// validate runs one pod, whose name is that of the check.
func validate(c model.Check, s model.State, last model.ValidationStatus) (model.ValidationStatus, []*unstructured.Unstructured, []model.Seen, time.Duration) {
	i := slices.IndexFunc(s.Pods, func(p *model.Pod) bool { return p.Owner == c.Name })
	remove := []model.Seen{}
	if i >= 0 && !s.Pods[i].Deleting && (last.Revision == c.Revision || s.Pods[i].Revision != c.Revision || s.Pods[i].Phase == "Succeeded") {
		remove = append(remove, model.Seen{Ref: model.Ref{APIVersion: "v1", Kind: "Pod", Namespace: "gpu", Name: c.Name}})
	}
	switch {
	case last.Revision == c.Revision:
		return last, nil, remove, 0
	case i >= 0 && s.Pods[i].Revision == c.Revision && s.Pods[i].Phase == "Succeeded":
		return model.ValidationStatus{Name: c.Name, State: "Passed", Passed: 1, Revision: c.Revision, Time: &metav1.Time{Time: noon()}}, nil, remove, 0
	case i >= 0:
		return model.ValidationStatus{Name: c.Name, State: "Running", Revision: last.Revision, Time: last.Time, Failed: last.Failed}, nil, remove, 0
	}
	p := &unstructured.Unstructured{}
	p.SetName(c.Name)
	p.SetLabels(map[string]string{"of": c.Revision})
	return model.ValidationStatus{Name: c.Name, State: "Running", Revision: last.Revision, Time: last.Time, Failed: last.Failed}, []*unstructured.Unstructured{p}, remove, 0
}
