package admission_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

const restricted = "node-restriction.kubernetes.io/secure"

// node is a Node as the kubelet, an administrator and the agent have made it.
func node() fields {
	condition := func(kind string) fields { return fields{"type": kind, "status": "False", "reason": "Test"} }
	owner := func(manager, operation, subresource string, owned fields) fields {
		return fields{"manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": owned}
	}
	ready := fields{".": fields{}, "f:type": fields{}, "f:status": fields{}, "f:reason": fields{}}
	return fields{
		"metadata": fields{
			"name": "n1", "uid": "u", "resourceVersion": "1",
			"labels":      fields{"kubernetes.io/arch": "amd64", restricted: "yes", "nvidia.com/gpu.count": "2"},
			"annotations": fields{"a": "b"},
			"managedFields": []any{
				owner("feature-discovery", "Apply", "", fields{"f:metadata": fields{"f:labels": fields{"f:nvidia.com/gpu.count": fields{}}}}),
				owner("gitops", "Apply", "", fields{"f:metadata": fields{"f:labels": fields{"f:" + restricted: fields{}, "f:nvidia.com/gpu.product": fields{}}}}),
				owner("kubelet", "Update", "", fields{"f:metadata": fields{"f:labels": fields{".": fields{}, "f:kubernetes.io/arch": fields{}}}, "f:spec": fields{"f:taints": fields{}}}),
				owner("kubelet", "Update", "status", fields{"f:status": fields{"f:conditions": fields{`k:{"type":"Ready"}`: ready, `k:{"type":"GPUReady"}`: ready}, "f:capacity": fields{}}}),
				owner("kubectl", "Update", "", fields{"f:spec": fields{"f:unschedulable": fields{}}, "f:metadata": fields{"f:annotations": fields{
					"f:a": fields{}, "f:outrigger.dev/mig-config-cordoned": fields{}, "f:outrigger.dev/driver-upgrade-cordoned": fields{},
				}}}),
			},
		},
		"spec": fields{"podCIDR": "10.0.0.0/24", "taints": []any{
			fields{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
			fields{"key": "outrigger.dev/gpu-not-ready", "effect": "NoSchedule"},
		}},
		"status": fields{
			"capacity": fields{"cpu": "4"}, "images": []any{fields{"names": []any{"a"}}},
			"conditions": []any{condition("MemoryPressure"), condition("Ready"), condition("GPUReady")},
		},
	}
}

// owned returns the fields of the owner with an index.
func owned(o fields, index int) fields {
	return part(o, "metadata")["managedFields"].([]any)[index].(fields)["fieldsV1"].(fields)
}

// conditions and taints are lists of the Node, which set replaces.
func conditions(o fields) []any { return part(o, "status")["conditions"].([]any) }
func taints(o fields) []any     { return part(o, "spec")["taints"].([]any) }
func set(o fields, of, name string, value any) {
	part(o, of)[name] = value
}

// change is one of a Node, and words of its rejection, none if it is allowed.
type change struct {
	of   func(fields)
	want string
}

const (
	otherLabels = "the agent may not change these labels: "
	noMetadata  = "the agent changes only labels in the metadata, not "
	noSpec      = "the agent does not change the spec of a Node"
	noStatus    = "the agent does not change the status of a Node"
	noTaint     = "neither adds nor changes any other"
	noCondition = "the agent writes only the condition GPUReady"
	noOwner     = "may not assign fields to "
	noTheft     = "the agent takes over only fields that it writes, no other fields of "
	notItsOwn   = "the agent takes ownership only of fields that it writes"
)

// foreign are changes that are nobody's of these agents.
func foreign() map[string]change {
	label := func(key string, value any) func(fields) {
		return func(o fields) { part(o, "metadata", "labels")[key] = value }
	}
	in := func(of, name string, value any) func(fields) { return func(o fields) { set(o, of, name, value) } }
	return map[string]change{
		"a role":                          {label("node-role.kubernetes.io/control-plane", ""), otherLabels + "node-role.kubernetes.io/control-plane"},
		"a label that others trust":       {label(restricted, "no"), otherLabels + restricted},
		"a label that others trust, away": {func(o fields) { delete(part(o, "metadata", "labels"), restricted) }, otherLabels + restricted},
		"all labels away":                 {func(o fields) { delete(part(o, "metadata"), "labels") }, otherLabels},
		"the MIG layout":                  {label("nvidia.com/mig.config", "all-1g.5gb"), otherLabels + "nvidia.com/mig.config"},
		"an annotation":                   {in("metadata", "annotations", fields{"a": "c"}), noMetadata + "annotations"},
		"no annotations":                  {func(o fields) { delete(part(o, "metadata"), "annotations") }, noMetadata + "annotations"},
		"a finalizer":                     {in("metadata", "finalizers", []any{"a.b/c"}), noMetadata + "finalizers"},
		"an owner":                        {in("metadata", "ownerReferences", []any{fields{"name": "x"}}), noMetadata + "ownerReferences"},
		"cordon":                          {in("spec", "unschedulable", true), noSpec},
		"an address range":                {in("spec", "podCIDR", "0.0.0.0/0"), noSpec},
		"a field of the spec of tomorrow": {in("spec", "tomorrow", "x"), noSpec},
		"capacity":                        {in("status", "capacity", fields{"nvidia.com/gpu": "9"}), noStatus},
		"images":                          {in("status", "images", []any{}), noStatus},
		"addresses":                       {in("status", "addresses", []any{fields{"address": "10.0.0.1"}}), noStatus},
		"volumes":                         {in("status", "volumesAttached", []any{fields{"name": "x"}}), noStatus},
	}
}

// foreignOwners are changes of who owns which fields that are nobody's of these agents.
func foreignOwners(agent string) map[string]change {
	return map[string]change{
		"more for another owner":          {func(o fields) { owned(o, 1)["f:spec"] = fields{"f:taints": fields{}} }, noOwner + "gitops"},
		"another label for another owner": {func(o fields) { part(owned(o, 1), "f:metadata", "f:labels")["f:kubernetes.io/arch"] = fields{} }, noOwner + "gitops"},
		"another part of another's status": {func(o fields) {
			part(owned(o, 3), "f:status", "f:conditions", `k:{"type":"Ready"}`)["f:message"] = fields{}
		}, noOwner + "kubelet"},
		"a field of another owner":  {func(o fields) { delete(part(owned(o, 1), "f:metadata", "f:labels"), "f:"+restricted) }, noTheft + "gitops"},
		"all fields of the kubelet": {func(o fields) { dropOwners(o, agent, func(m fields) bool { return m["subresource"] == "status" }) }, noTheft + "kubelet"},
		"all fields of all owners":  {func(o fields) { dropOwners(o, agent, func(fields) bool { return true }) }, "gitops, kubelet, kubelet, kubectl"},
		"no owners":                 {func(o fields) { delete(part(o, "metadata"), "managedFields") }, "gitops, kubelet, kubelet, kubectl"},
		"everything for an owner from before": {func(o fields) {
			addOwner(o, fields{"manager": "before-first-apply", "operation": "Update", "fieldsV1": fields{"f:spec": fields{"f:podCIDR": fields{}}}})
		}, noOwner + "before-first-apply"},
		"more for the owners that Kubernetes puts together": {func(o fields) {
			addOwner(o, fields{"manager": "ancient-changes", "operation": "Update", "fieldsV1": fields{"f:spec": fields{"f:podCIDR": fields{}}}})
		}, noOwner + "ancient-changes"},
		"a label more for the owners that Kubernetes puts together": {func(o fields) {
			addOwner(o, fields{"manager": "ancient-changes", "operation": "Update", "fieldsV1": fields{"f:metadata": fields{"f:labels": fields{"f:" + restricted: fields{}}}}})
		}, noOwner + "ancient-changes"},
		"a new owner": {
			func(o fields) {
				all := part(o, "metadata")["managedFields"].([]any)
				set(o, "metadata", "managedFields", append(all, fields{"manager": "somebody", "operation": "Apply", "fieldsV1": fields{}}))
			}, noOwner + "somebody",
		},
		"another label for itself": {
			own(agent, "Apply", fields{"f:metadata": fields{"f:labels": fields{"f:" + restricted: fields{}}}}), notItsOwn,
		},
		"all labels for itself":             {own(agent, "Apply", fields{"f:metadata": fields{"f:labels": fields{".": fields{}}}}), notItsOwn},
		"all annotations for itself":        {own(agent, "Apply", fields{"f:metadata": fields{"f:annotations": fields{".": fields{}}}}), notItsOwn},
		"another annotation for itself":     {own(agent, "Apply", fields{"f:metadata": fields{"f:annotations": fields{"f:a": fields{}}}}), notItsOwn},
		"an address range for itself":       {own(agent, "Apply", fields{"f:spec": fields{"f:podCIDR": fields{}}}), notItsOwn},
		"the capacity for itself":           {own(agent, "Apply", fields{"f:status": fields{"f:capacity": fields{}}}), notItsOwn},
		"another label for itself, updated": {own(agent, "Update", fields{"f:metadata": fields{"f:labels": fields{"f:" + restricted: fields{}}}}), notItsOwn},
	}
}

// addOwner adds an owner of fields, and dropOwners removes some.
func addOwner(o, owner fields) {
	set(o, "metadata", "managedFields", append(part(o, "metadata")["managedFields"].([]any), owner))
}

func dropOwners(o fields, agent string, which func(fields) bool) {
	set(o, "metadata", "managedFields", slices.DeleteFunc(part(o, "metadata")["managedFields"].([]any), func(m any) bool {
		return m.(fields)["manager"] != agent && which(m.(fields))
	}))
}

// own is what makes an agent the owner of a field by an operation.
func own(agent, operation string, owned fields) func(fields) {
	return func(o fields) {
		addOwner(o, fields{"manager": agent, "operation": operation, "fieldsV1": owned})
	}
}

// cordons are changes of an agent that cordons its node, and says so in an annotation.
func cordons(agent, annotation string) map[string]change {
	marked := fields{"f:metadata": fields{"f:annotations": fields{"f:" + annotation: fields{}}}, "f:spec": fields{"f:unschedulable": fields{}}}
	return map[string]change{
		"cordon, and who did it": {of: func(o fields) {
			set(o, "spec", "unschedulable", true)
			part(o, "metadata", "annotations")[annotation] = "x"
			own(agent, "Update", marked)(o)
		}},
		"cordon, with the first annotation": {of: func(o fields) {
			set(o, "spec", "unschedulable", true)
			part(o, "metadata", "annotations")[annotation] = "x"
			part(marked, "f:metadata", "f:annotations")["."] = fields{}
			own(agent, "Update", marked)(o)
		}},
		"a cordon that kubectl owned": {of: func(o fields) {
			set(o, "spec", "unschedulable", true)
			own(agent, "Update", fields{"f:spec": fields{"f:unschedulable": fields{}}})(o)
			delete(owned(o, 4), "f:spec")
			delete(part(owned(o, 4), "f:metadata", "f:annotations"), "f:"+annotation)
		}},
		"another annotation that kubectl owned": {func(o fields) {
			delete(part(owned(o, 4), "f:metadata", "f:annotations"), "f:a")
		}, noTheft + "kubectl"},
		"a cordon for another owner": {func(o fields) {
			addOwner(o, fields{"manager": "gitops", "operation": "Update", "fieldsV1": fields{"f:spec": fields{"f:unschedulable": fields{}}}})
		}, noOwner + "gitops"},
	}
}

func TestTheLabelsPartChangesItsOwnOnly(t *testing.T) {
	of := func(list func(fields) []any, in, name string, change func([]any) []any) func(fields) {
		return func(o fields) { set(o, in, name, change(list(o))) }
	}
	onTaints := func(c func([]any) []any) func(fields) { return of(taints, "spec", "taints", c) }
	message := func(size int) func(fields) {
		return func(o fields) {
			part(o, "status")["conditions"].([]any)[2].(fields)["message"] = strings.Repeat("m", size)
		}
	}
	onConditions := func(c func([]any) []any) func(fields) { return of(conditions, "status", "conditions", c) }
	changes := foreign()
	maps.Copy(changes, foreignOwners("feature-discovery"))
	maps.Copy(changes, map[string]change{
		"nothing": {of: nil},
		"labels of GPUs": {of: func(o fields) {
			labels := part(o, "metadata", "labels")
			labels["nvidia.com/gpu.count"], labels["nvidia.com/mig-1g.10gb.me.count"], labels["nvidia.com/gpu.product-NVIDIA-L4.memory"] = "3", "1", "1"
		}},
		"a label that another one applied": {of: func(o fields) {
			part(o, "metadata", "labels")["nvidia.com/gpu.product"] = "NVIDIA-L4"
			delete(part(owned(o, 1), "f:metadata", "f:labels"), "f:nvidia.com/gpu.product")
		}},
		"it becomes the owner of the taints": {of: func(o fields) {
			own("feature-discovery", "Update", fields{"f:spec": fields{"f:taints": fields{}}})(o)
			delete(owned(o, 2), "f:spec")
		}},
		"it becomes the owner of the condition": {of: func(o fields) {
			owned(o, 0)["f:status"] = fields{"f:conditions": fields{`k:{"type":"GPUReady"}`: fields{".": fields{}, "f:type": fields{}}}}
		}},
		"a long message":             {of: message(1024)},
		"a message that is too long": {message(1025), "with a message of at most 1024 characters"},
		"too many labels": {func(o fields) {
			for i := range 513 {
				part(o, "metadata", "labels")[fmt.Sprintf("nvidia.com/gpu.product-%d.memory", i)] = "1"
			}
		}, "at most 512 labels"},
		"it owns nothing any more": {of: func(o fields) { delete(owned(o, 0), "f:metadata") }},
		"owners that Kubernetes puts together, without the taints": {of: func(o fields) {
			all := part(o, "metadata")["managedFields"].([]any)
			all[2].(fields)["manager"] = "ancient-changes"
			delete(owned(o, 2), "f:spec")
			own("feature-discovery", "Update", fields{"f:spec": fields{"f:taints": fields{}}})(o)
		}},
		"it becomes the owner of an address range":  {own("feature-discovery", "Update", fields{"f:spec": fields{"f:podCIDR": fields{}}}), notItsOwn},
		"it becomes the owner of another label":     {func(o fields) { part(owned(o, 0), "f:metadata", "f:labels")["f:"+restricted] = fields{} }, notItsOwn},
		"it becomes the owner of another condition": {own("feature-discovery", "Apply", fields{"f:status": fields{"f:conditions": fields{`k:{"type":"Ready"}`: fields{}}}}), notItsOwn},
		"all of its labels go":                      {of: func(o fields) { delete(part(o, "metadata", "labels"), "nvidia.com/gpu.count") }},
		"the condition":                             {of: func(o fields) { conditions(o)[2].(fields)["status"] = "True" }},
		"the condition, of which another one owned a part": {of: func(o fields) {
			conditions(o)[2].(fields)["status"] = "True"
			delete(part(owned(o, 3), "f:status", "f:conditions", `k:{"type":"GPUReady"}`), "f:status")
		}},
		"the condition for the first time": {of: onConditions(func(c []any) []any { return c[:2] })},
		"the start-up taint goes":          {of: onTaints(func(l []any) []any { return l[:1] })},
		"owners that Kubernetes puts together": {of: func(o fields) {
			part(o, "metadata")["managedFields"].([]any)[2].(fields)["manager"] = "ancient-changes"
		}},

		"all taints go":        {func(o fields) { delete(part(o, "spec"), "taints") }, noTaint},
		"a foreign taint goes": {onTaints(func(l []any) []any { return l[1:] }), noTaint},
		"a taint":              {onTaints(func(l []any) []any { return append(l, fields{"key": "x", "effect": "NoExecute"}) }), noTaint},
		"the effect of a taint": {
			onTaints(func(l []any) []any {
				return []any{fields{"key": "dedicated", "value": "gpu", "effect": "NoExecute"}, l[1]}
			}), noTaint,
		},
		"a foreign condition":      {onConditions(func(c []any) []any { return append(c, fields{"type": "NetworkUnavailable"}) }), noCondition},
		"a foreign condition goes": {onConditions(func(c []any) []any { return c[1:] }), noCondition},
		"no condition":             {func(o fields) { delete(part(o, "status"), "conditions") }, noCondition},
		"a foreign condition pushed out by a second one of another type": {onConditions(func(c []any) []any { return []any{c[0], c[0], c[2]} }), noCondition},
		"the condition twice": {onConditions(func(c []any) []any { return append(c, c[2]) }), noCondition},
	})
	p := load(t, "feature-discovery/defaults.golden", ofLabels)
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			old := with(t, node(), nil)
			p.check(t, request{account: "outrigger-feature-discovery", bound: "n1", old: old, new: with(t, old, c.of)}, c.want)
		})
	}
}

func TestThePresencePartChangesItsOwnOnly(t *testing.T) {
	changes := foreign()
	maps.Copy(changes, foreignOwners("feature-discovery-presence"))
	maps.Copy(changes, map[string]change{
		"its labels": {of: func(o fields) {
			part(o, "metadata", "labels")["nvidia.com/gpu.present"] = "true"
			part(o, "metadata", "labels")["feature.node.kubernetes.io/pci-10de.present"] = "true"
		}},
		"a label of the other part": {func(o fields) { part(o, "metadata", "labels")["nvidia.com/gpu.count"] = "9" }, otherLabels + "nvidia.com/gpu.count"},
		"the condition":             {func(o fields) { conditions(o)[2].(fields)["status"] = "True" }, noStatus},
		"the start-up taint":        {func(o fields) { set(o, "spec", "taints", taints(o)[:1]) }, noSpec},
		"the ownership of its label": {of: func(o fields) {
			part(o, "metadata", "labels")["nvidia.com/gpu.present"] = "true"
			own("feature-discovery-presence", "Apply", fields{"f:metadata": fields{"f:labels": fields{"f:nvidia.com/gpu.present": fields{}}}})(o)
		}},
		"the ownership of the taints": {own("feature-discovery-presence", "Update", fields{"f:spec": fields{"f:taints": fields{}}}), notItsOwn},
		"the ownership of a label of the other part": {
			own("feature-discovery-presence", "Apply", fields{"f:metadata": fields{"f:labels": fields{"f:nvidia.com/gpu.count": fields{}}}}), notItsOwn,
		},
		"a field of the other part": {func(o fields) { delete(owned(o, 0), "f:metadata") }, noTheft + "feature-discovery"},
		"more for the other part": {
			func(o fields) { part(owned(o, 0), "f:metadata", "f:labels")["f:kubernetes.io/arch"] = fields{} }, noOwner + "feature-discovery",
		},
	})
	p := load(t, "feature-discovery/defaults.golden", ofPresence)
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			old := with(t, node(), nil)
			p.check(t, request{account: "outrigger-feature-discovery-presence", bound: "n1", old: old, new: with(t, old, c.of)}, c.want)
		})
	}
}

// TestTheFirstApply has a Node from before there were owners of fields.
func TestTheFirstApply(t *testing.T) {
	old := with(t, node(), func(o fields) { delete(part(o, "metadata"), "managedFields") })
	change := with(t, old, func(o fields) {
		set(o, "metadata", "managedFields", []any{
			fields{"manager": "before-first-apply", "operation": "Update", "fieldsV1": fields{"f:spec": fields{"f:podCIDR": fields{}}}},
			fields{"manager": "feature-discovery", "operation": "Apply", "fieldsV1": fields{"f:metadata": fields{"f:labels": fields{"f:nvidia.com/gpu.count": fields{}}}}},
		})
	})
	p := load(t, "feature-discovery/defaults.golden", ofLabels)
	p.check(t, request{account: "outrigger-feature-discovery", bound: "n1", old: old, new: change}, "")
}

// TestAnAgentThatOwnsTooMuch has a Node on which somebody made the agent the owner of
// a field before there was a policy: the agent still writes what is its own.
func TestAnAgentThatOwnsTooMuch(t *testing.T) {
	old := with(t, node(), func(o fields) { owned(o, 0)["f:spec"] = fields{"f:podCIDR": fields{}} })
	p := load(t, "feature-discovery/defaults.golden", ofLabels)
	change := with(t, old, func(o fields) { part(o, "metadata", "labels")["nvidia.com/gpu.count"] = "3" })
	p.check(t, request{account: "outrigger-feature-discovery", bound: "n1", old: old, new: change}, "")
}

// TestABareNode has a Node of which optional fields are missing on both sides.
func TestABareNode(t *testing.T) {
	bare := fields{"metadata": fields{"name": "n1"}}
	labelled := fields{"metadata": fields{"name": "n1", "labels": fields{"nvidia.com/gpu.count": "1"}}}
	ready := fields{"metadata": fields{"name": "n1"}, "status": fields{"conditions": []any{fields{"type": "GPUReady", "status": "True"}}}}
	p := load(t, "feature-discovery/defaults.golden", ofLabels)
	for _, r := range []request{{old: bare, new: bare}, {old: bare, new: labelled}, {old: labelled, new: bare}, {old: bare, new: ready}} {
		r.account, r.bound = "outrigger-feature-discovery", "n1"
		p.check(t, r, "")
	}
}

func TestTheTokenIsOfTheNode(t *testing.T) {
	old := with(t, node(), nil)
	change := with(t, old, func(o fields) { part(o, "metadata", "labels")["nvidia.com/gpu.count"] = "3" })
	p := load(t, "feature-discovery/defaults.golden", ofLabels)
	p.check(t, request{account: "outrigger-feature-discovery", bound: "n2", old: old, new: change}, "the agent on node n2 does not write to other Nodes")
	if denied := p.denials(t, request{account: "outrigger-feature-discovery", old: old, new: change}); len(denied) != 2 {
		t.Errorf("a token that is bound to no node is denied for %q", denied)
	}
}

// TestLabelsThatGoElsewhereAreNotForTheNode has the policy where Node Feature
// Discovery writes the labels.
func TestLabelsThatGoElsewhereAreNotForTheNode(t *testing.T) {
	old := with(t, node(), nil)
	p := render(t, "feature-discovery", "nodefeature", ofLabels)
	r := request{account: "outrigger-feature-discovery", bound: "n1", old: old}
	r.new = with(t, old, func(o fields) { part(o, "metadata", "labels")["nvidia.com/gpu.count"] = "3" })
	p.check(t, r, otherLabels+"nvidia.com/gpu.count")
	r.new = with(t, old, func(o fields) { conditions(o)[2].(fields)["status"] = "True" })
	p.check(t, r, "")
}
