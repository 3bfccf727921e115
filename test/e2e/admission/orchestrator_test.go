package admission_test

import "testing"

func TestTheOrchestratorDoesNotUseWhatItGives(t *testing.T) {
	const given = " only to give it to agents"
	p := load(t, "orchestrator/defaults.golden", "given.outrigger-orchestrator.gpu-operator")
	lease := func(namespace, name string) request {
		return request{
			in: "gpu-operator", account: "outrigger-orchestrator", resource: "leases", namespace: namespace, name: name,
			old: fields{"spec": fields{}}, new: fields{"spec": fields{"holderIdentity": "a"}},
		}
	}
	for name, c := range map[string]struct {
		request
		want string
	}{
		"its own Lease":                {lease("default", "outrigger"), ""},
		"a Lease of its name":          {lease("kube-system", "outrigger"), "write leases" + given},
		"another Lease beside it":      {lease("default", "kubernetes"), "write leases" + given},
		"a Node with its Lease's name": {request{in: "gpu-operator", account: "outrigger-orchestrator", resource: "nodes", name: "outrigger", old: node(), new: node()}, "write nodes" + given},
		"the status of a Node":         {request{in: "gpu-operator", account: "outrigger-orchestrator", resource: "nodes", subresource: "status", name: "n1", old: node(), new: node()}, "write nodes/status" + given},
	} {
		t.Run(name, func(t *testing.T) { p.check(t, c.request, c.want) })
	}
}
