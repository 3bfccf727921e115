//go:build e2e

package e2e_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

// request is a change that somebody with an agent's token asks for.
type request struct {
	// node is the Node, gpuNode if it is empty.
	node, subresource string
	kind              string
	patch             any
	// denied is what denies it, empty if it is allowed.
	denied string
}

// The API server denies what a role does not allow, and what a policy does not.
const (
	byRole   = "is forbidden: User"
	byPolicy = "ValidatingAdmissionPolicy"
)

// object is a part of a JSON object.
type object = map[string]any

// applied is a Node for server-side apply.
func applied(node string, parts object) object {
	o := object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": node}}
	for key, value := range parts {
		if key == "labels" || key == "annotations" {
			o["metadata"].(object)[key] = value
			continue
		}
		o[key] = value
	}
	return o
}

// conditions is a status with one condition.
func conditions(kind, status string) object {
	return object{"status": object{"conditions": []any{object{
		"type": kind, "status": status, "reason": "Forged", "message": "by a test",
		"lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}}
}

// asks sends a request without effect (dry run), which admission is asked about
// all the same.
func asks(t *testing.T, api *stack.API, manager string, r request) error {
	t.Helper()
	node := gpuNode()
	if r.node != "" {
		node = r.node
	}
	path := stack.NodePath(node) + r.subresource + "?dryRun=All&fieldManager=" + manager
	if r.kind == stack.ServerSideApply {
		path += "&force=true"
	}
	return api.Patch(t.Context(), path, r.kind, r.patch)
}

// check compares the answer of the API server with the expected one.
func check(t *testing.T, err error, denied string) {
	t.Helper()
	var rejection *stack.Rejection
	switch {
	case denied == "" && err != nil:
		t.Errorf("it is denied: %v", err)
	case denied == "":
	case err == nil:
		t.Error("it is allowed")
	case !errors.As(err, &rejection):
		t.Error(err)
	case rejection.Code != http.StatusForbidden && rejection.Code != http.StatusUnprocessableEntity || !strings.Contains(rejection.Message, denied):
		t.Errorf("it is denied with %d %s, want it to say %q", rejection.Code, rejection.Message, denied)
	default:
		t.Log(rejection.Message)
	}
}

func TestAnAgentsTokenWritesItsOwnOnly(t *testing.T) {
	// Without a plugin the node does not get ready, and keeps its start-up taint.
	admin := discovery(t, "readyChain={driver,plugin}")
	nodeIs(t, admin, gpuNode(), "the missing plugin is reported", readyIs("False", "Plugin"))
	if err := setTaints(t.Context(), admin, gpuNode(), keep(), startup()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kubectlCleanup(t, "patch", "node", gpuNode(), "--type=merge", "-p", `{"spec":{"taints":null}}`)
	})
	agent := account(t, podOf(t, featureDiscovery, gpuNode()))
	other := shared.Nodes()[0]
	merge := func(o object) request { return request{kind: stack.MergePatch, patch: o} }
	labels := func(key, value string) object { return object{"metadata": object{"labels": object{key: value}}} }

	for name, r := range map[string]request{
		"apply labels of GPUs": {
			kind: stack.ServerSideApply, patch: applied(gpuNode(), object{"labels": object{"nvidia.com/gpu.count": "3", "nvidia.com/mig-1g.10gb.count": "1"}}),
		},
		"apply the condition": {
			kind: stack.ServerSideApply, subresource: "/status", patch: applied(gpuNode(), conditions(gpuReady, "False")),
		},
		"remove the start-up taint": {
			kind: stack.JSONPatch, patch: []object{{"op": "test", "path": "/spec/taints/1", "value": startup()}, {"op": "remove", "path": "/spec/taints/1"}},
		},

		"label another node": {
			node: other, denied: byPolicy,
			kind: stack.ServerSideApply, patch: applied(other, object{"labels": object{"nvidia.com/gpu.count": "3"}}),
		},
		"set the condition of another node": {
			node: other, denied: byPolicy,
			kind: stack.ServerSideApply, subresource: "/status", patch: applied(other, conditions(gpuReady, "True")),
		},
		"label the node with a role":             deny(byPolicy, merge(labels("node-role.kubernetes.io/control-plane", ""))),
		"choose the MIG layout":                  deny(byPolicy, merge(labels("nvidia.com/mig.config", "all-1g.10gb"))),
		"choose the config of the device plugin": deny(byPolicy, merge(labels("nvidia.com/device-plugin.config", "shared"))),
		"take an agent off the node":             deny(byPolicy, merge(labels("nvidia.com/gpu.deploy.driver", "false"))),
		"take a label of the kubelet":            deny(byPolicy, merge(object{"metadata": object{"labels": object{"kubernetes.io/arch": nil}}})),
		"annotate the node":                      deny(byPolicy, merge(object{"metadata": object{"annotations": object{"test": "forged"}}})),
		"put a finalizer on the node":            deny(byPolicy, merge(object{"metadata": object{"finalizers": []string{"test.outrigger.dev/forged"}}})),
		"label the node through its status":      {denied: byPolicy, subresource: "/status", kind: stack.MergePatch, patch: labels("nvidia.com/mig.config", "x")},
		"set a foreign condition": {
			denied: byPolicy, subresource: "/status", kind: stack.ServerSideApply, patch: applied(gpuNode(), conditions("Ready", "False")),
		},
		"add a foreign condition": {
			denied: byPolicy, subresource: "/status", kind: stack.ServerSideApply, patch: applied(gpuNode(), conditions("NetworkUnavailable", "True")),
		},
		"remove the foreign conditions": {
			denied: byPolicy, subresource: "/status", kind: stack.MergePatch, patch: object{"status": object{"conditions": []any{}}},
		},
		"push a foreign condition out with a second one of another": {
			denied: byPolicy, subresource: "/status", kind: stack.JSONPatch,
			patch: []object{{"op": "copy", "from": "/status/conditions/0", "path": "/status/conditions/1"}, {"op": "remove", "path": "/status/conditions/2"}},
		},
		"say twice whether the GPUs are ready": {
			denied: byPolicy, subresource: "/status", kind: stack.JSONPatch,
			patch: []object{{"op": "add", "path": "/status/conditions/-", "value": object{"type": gpuReady, "status": "True"}}},
		},
		"write under the name of another": {
			denied: byPolicy, kind: stack.JSONPatch, patch: []object{{"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "somebody"}},
		},
		"take all fields from all owners": {
			denied: byPolicy, kind: stack.JSONPatch, patch: []object{{"op": "replace", "path": "/metadata/managedFields", "value": []object{{}}}},
		},
		"become the owner of a foreign label": {
			denied: byPolicy, kind: stack.ServerSideApply,
			patch: applied(gpuNode(), object{"labels": object{"kubernetes.io/os": "linux"}}),
		},
		"advertise a resource": {
			denied: byPolicy, subresource: "/status", kind: stack.MergePatch, patch: object{"status": object{"capacity": object{"nvidia.com/gpu": "99"}}},
		},
		"cordon the node": deny(byPolicy, merge(object{"spec": object{"unschedulable": true}})),
		"add a taint": {
			denied: byPolicy, kind: stack.JSONPatch,
			patch: []object{{"op": "add", "path": "/spec/taints/-", "value": stack.Taint{Key: "test.outrigger.dev/forged", Effect: "NoExecute"}}},
		},
		"remove a taint of another writer": {
			denied: byPolicy, kind: stack.JSONPatch, patch: []object{{"op": "remove", "path": "/spec/taints/0"}},
		},
		"remove all taints": deny(byPolicy, merge(object{"spec": object{"taints": nil}})),
		"change the effect of a taint": {
			denied: byPolicy, kind: stack.JSONPatch, patch: []object{{"op": "replace", "path": "/spec/taints/0/effect", "value": "NoExecute"}},
		},
	} {
		t.Run(name, func(t *testing.T) { check(t, asks(t, agent, featureDiscovery, r), r.denied) })
	}
}

// deny is a request that must be denied.
func deny(by string, r request) request {
	r.denied = by
	return r
}

func thePresencesTokenWritesItsOwnOnly(t *testing.T) {
	other := shared.Nodes()[0]
	agent := account(t, podOf(t, presence, gpuNode()))
	for name, r := range map[string]request{
		"apply the label of the bus": {
			kind: stack.ServerSideApply, patch: applied(gpuNode(), object{"labels": object{stack.PCILabel: "true"}}),
		},
		"label another node": {
			node: other, denied: byPolicy,
			kind: stack.ServerSideApply, patch: applied(other, object{"labels": object{stack.PCILabel: "true"}}),
		},
		"label the node with a role": {
			denied: byPolicy, kind: stack.MergePatch, patch: object{"metadata": object{"labels": object{"node-role.kubernetes.io/control-plane": ""}}},
		},
		"count the GPUs": {
			denied: byPolicy, kind: stack.MergePatch, patch: object{"metadata": object{"labels": object{"nvidia.com/gpu.count": "3"}}},
		},
		"cordon the node": {denied: byPolicy, kind: stack.MergePatch, patch: object{"spec": object{"unschedulable": true}}},
		"set the condition": {
			denied: byRole, subresource: "/status", kind: stack.ServerSideApply, patch: applied(gpuNode(), conditions(gpuReady, "True")),
		},
	} {
		t.Run(name, func(t *testing.T) { check(t, asks(t, agent, presence, r), r.denied) })
	}
}

func aTokenWithoutANodeWritesNothing(t *testing.T) {
	unbound, err := shared.Account(t.Context(), featureDiscovery)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unbound.Close)
	check(t, asks(t, unbound, featureDiscovery, request{
		kind: stack.ServerSideApply, patch: applied(gpuNode(), object{"labels": object{"nvidia.com/gpu.count": "3"}}),
	}), byPolicy)
}

// account is the API as the account of a pod.
func account(t *testing.T, pod string) *stack.API {
	t.Helper()
	api, err := shared.AccountOf(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return api
}
