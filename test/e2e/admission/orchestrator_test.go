package admission_test

import (
	"strings"
	"testing"
)

// orchestratorPolicies is the golden file with the policies of the orchestrator.
const orchestratorPolicies = "outrigger/defaults.golden"

// byOrchestrator completes a request of the orchestrator in the namespace of the agents.
func byOrchestrator(resource string, r request) request {
	r.in, r.account, r.resource, r.namespace = "gpu-operator", "outrigger-orchestrator", resource, "gpu-operator-resources"
	return r
}

// podSpec is the spec of an agent's pod.
func podSpec() fields {
	return fields{
		"serviceAccountName": "outrigger-device-plugin",
		"containers":         []any{fields{"name": "a", "image": "outrigger.dev/device-plugin:26.11.0-debian12"}},
		"volumes":            []any{fields{"name": "run", "hostPath": fields{"path": "/run/nvidia"}}, fields{"name": "tmp", "emptyDir": fields{}}},
	}
}

func TestTheOrchestratorAppliesWhatTheReleaseHas(t *testing.T) {
	const (
		images   = "the Helm release does not have these images: "
		folders  = "the Helm release does not have these folders of the host: "
		accounts = "the Helm release does not have the account "
	)
	p := load(t, orchestratorPolicies, "workloads.outrigger-orchestrator.gpu-operator")
	image := func(name string) func(fields) {
		return func(o fields) { o["containers"] = []any{fields{"name": "a", "image": name}} }
	}
	for name, c := range map[string]change{
		"an agent":                       {},
		"another version":                {of: image("outrigger.dev/device-plugin@sha256:0123")},
		"another image":                  {image("example.org/thief:1"), images + "example.org/thief:1"},
		"an image whose name is longer":  {image("outrigger.dev/device-plugin-thief:1"), images},
		"another image to begin with":    {func(o fields) { o["initContainers"] = []any{fields{"image": "thief"}} }, images + "thief"},
		"another folder of the host":     {func(o fields) { o["volumes"] = []any{fields{"hostPath": fields{"path": "/etc/kubernetes"}}} }, folders + "/etc/kubernetes"},
		"the account of another program": {func(o fields) { o["serviceAccountName"] = "admin" }, accounts + "admin"},
		"no account":                     {func(o fields) { delete(o, "serviceAccountName"); o["automountServiceAccountToken"] = false }, ""},
		"the token of the namespace":     {func(o fields) { o["serviceAccountName"] = "default"; o["automountServiceAccountToken"] = true }, accounts + "default"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := with(t, podSpec(), c.of)
			for _, resource := range []string{"daemonsets", "deployments"} {
				workload := fields{"metadata": fields{"name": "a"}, "spec": fields{"template": fields{"spec": spec}}}
				p.check(t, byOrchestrator(resource, request{new: workload}), c.want)
				p.check(t, byOrchestrator(resource, request{old: workload, new: workload}), c.want)
			}
			p.check(t, byOrchestrator("pods", request{new: fields{"metadata": fields{"name": "a"}, "spec": spec}}), c.want)
		})
	}
	service := fields{"metadata": fields{"name": "a"}, "spec": fields{}}
	p.check(t, byOrchestrator("services", request{new: service}), "")
	p.check(t, byOrchestrator("services", request{old: service}), "the orchestrator deletes only objects that it has applied")
	own := fields{"metadata": fields{"name": "a", "labels": fields{"app.kubernetes.io/managed-by": "outrigger"}}}
	p.check(t, byOrchestrator("services", request{old: own}), "")
}

func TestTheOrchestratorSendsShortEventsAboutPolicies(t *testing.T) {
	p := load(t, orchestratorPolicies, "events.outrigger-orchestrator.gpu-operator")
	event := fields{
		"metadata":       fields{"name": "cluster-policy.17", "namespace": "default"},
		"involvedObject": fields{"apiVersion": "outrigger.dev/v1alpha1", "kind": "ClusterPolicy", "name": "cluster-policy", "uid": "u"},
		"source":         fields{"component": "outrigger"}, "type": "Warning", "reason": "LeftBehind", "message": strings.Repeat("m", 1024),
	}
	at := func(value any, name string, path ...string) func(fields) {
		return func(o fields) { part(o, path...)[name] = value }
	}
	for name, c := range map[string]change{
		"an Event of the orchestrator": {},
		"about a Node":                 {at("Node", "kind", "involvedObject"), "Events about ClusterPolicies only"},
		"of the kubelet":               {at("kubelet", "component", "source"), "in its own name"},
		"with a long message":          {func(o fields) { o["message"] = strings.Repeat("m", 1025) }, "at most 1024 characters"},
		"with a long path":             {at(strings.Repeat("p", 1<<20), "fieldPath", "involvedObject"), "at most 1024 characters"},
	} {
		t.Run(name, func(t *testing.T) { p.check(t, byOrchestrator("events", request{new: with(t, event, c.of)}), c.want) })
	}
}
