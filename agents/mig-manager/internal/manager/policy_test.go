package manager_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube"
)

// testsForgedOwnersAreDenied asks for what a stolen token could do to lock out this agent or others:
// whoever applies to a Node removes what it owns and does not name.
func (n *node) testsForgedOwnersAreDenied() {
	n.ask("all-disabled")
	stop := n.start()
	n.succeeds()
	stop()
	owner := func(manager, fields string) string {
		return fmt.Sprintf(`{"manager":%q,"operation":"Apply","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":%s}`, manager, fields)
	}
	const config = `{"f:metadata":{"f:labels":{"f:nvidia.com/mig.config":{}}}}`
	for what, op := range map[string]kube.Operation{
		"no owners":              {Op: "replace", Path: "/metadata/managedFields", Value: json.RawMessage(`[{}]`)},
		"another name":           {Op: "replace", Path: "/metadata/managedFields/0/manager", Value: json.RawMessage(`"somebody"`)},
		"a new owner":            {Op: "add", Path: "/metadata/managedFields/-", Value: json.RawMessage(owner("somebody", config))},
		"the config for itself":  {Op: "replace", Path: "/metadata/managedFields", Value: json.RawMessage("[" + owner(manager.Name, config) + "]")},
		"another's field itself": {Op: "add", Path: "/metadata/managedFields/-", Value: json.RawMessage(owner("feature-discovery", config))},
	} {
		err := n.cfg.Client.Patch(n.Context(), n.admin.Node(), []kube.Operation{op}, nil)
		if err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			n.Errorf("%s: %v, want a policy to deny it", what, err)
		}
	}
	// With the value that it has, so that only the owner changes.
	err := n.cfg.Client.Apply(n.Context(), n.admin.Node(), map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": n.admin.Node().Name, "labels": map[string]string{manager.ConfigLabel: "all-disabled"}},
	}, nil)
	assert.ErrorContains(n, err, "takes ownership only of fields that it writes")
	n.start()
	n.ask("all-balanced")
	n.succeeds()
}

// testsOwnersThatArePutTogether: Kubernetes keeps ten of those that update, and puts older ones
// together, with the first write of the next one.
func (n *node) testsOwnersThatArePutTogether() {
	n.ask("all-disabled") // Kubernetes lists owners from the first apply on
	for i := range 12 {
		assert.NilError(n, n.client(fmt.Sprintf("writer-%d", i)).Patch(n.Context(), n.admin.Node(), []kube.Operation{
			{Op: "add", Path: "/metadata/annotations", Value: json.RawMessage("{}")},
			{Op: "add", Path: kube.AnnotationPath(fmt.Sprintf("of.writer/%d", i)), Value: json.RawMessage(`"x"`)},
			{Op: "add", Path: kube.AnnotationPath(manager.CordonedAnnotation), Value: json.RawMessage(`"all-balanced"`)},
		}[min(i, 1):], nil))
	}
	n.cfg.Options.Policy = manager.EvictPods
	n.users = []mig.Holder{holds("of-"+n.admin.Node().Name, "train-0")}
	n.pod("of-"+n.admin.Node().Name, "train-0")
	n.ask("all-balanced")
	n.start()
	n.until("cordoned", func(s shown) bool { return s.Spec.Unschedulable })
	n.set(func() { n.users = nil })
	s := n.succeeds()
	if got := len(s.Metadata.Annotations); got != 12 {
		n.Errorf("the node has the annotations %v, want those of the others", s.Metadata.Annotations)
	}
	var owners json.RawMessage
	assert.NilError(n, n.admin.Get(n.Context(), n.admin.Node(), &owners))
	if !strings.Contains(string(owners), `"manager":"ancient-changes"`) {
		n.Errorf("the API server has put no owners together: %s", owners)
	}
}
