package admission_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/charts"
	"outrigger.dev/charts/chartstest"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/kube/apitest"
)

// The release of the chart outrigger, its namespace and that of the agents, and the account of the orchestrator.
const (
	release             = "outrigger"
	releaseNamespace    = "gpu-operator"
	agentNamespace      = "gpu-operator-resources"
	orchestratorAccount = "--as=system:serviceaccount:" + releaseNamespace + ":" + release + "-orchestrator"
)

// TestTheRightsOfTheOrchestrator installs the objects that give rights on a real API server, as Helm does. With the
// account of the orchestrator, it then applies and deletes the workloads of all agents, and tries what the account
// must not do. SECURITY.md has the table of its rights.
func TestTheRightsOfTheOrchestrator(t *testing.T) {
	rc := apitest.Start(t)
	run := func(t *testing.T, script string) string {
		t.Helper()
		return apitest.Script(t, rc, script)
	}
	rights, workloads := ofRelease(t)
	node := manifest(t, `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}`)
	run(t, fmt.Sprintf(`
		kubectl create -f %q
		kubectl create namespace %s
		kubectl apply --server-side --field-manager=helm -f %q
		kubectl create configmap -n %s others`, node, releaseNamespace, rights, agentNamespace))
	apply := fmt.Sprintf("kubectl apply --server-side --field-manager=outrigger %s -f %q\n", orchestratorAccount, workloads)
	run(t, apply+apply)
	theOrchestratorCannot(t, func(t *testing.T, args ...string) string {
		t.Helper()
		for i, arg := range args {
			args[i] = fmt.Sprintf("%q", arg)
		}
		return run(t, "if kubectl "+strings.Join(args, " ")+" "+orchestratorAccount+" 2>&1; then echo "+permitted+"; fi")
	})
	run(t, fmt.Sprintf("kubectl delete --cascade=foreground %s -f %q", orchestratorAccount, workloads))
}

// ofRelease returns files with the objects of a Helm release that give rights, and with the objects that the
// orchestrator applies.
func ofRelease(t *testing.T) (rights, workloads string) {
	t.Helper()
	chart, err := charts.Load(release)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{"draPlugin": map[string]any{"enabled": true}}
	options := charts.Release{Name: release, Namespace: releaseNamespace, Kubernetes: "v1.37.1", Values: chartstest.WithRegistry(values)}
	helm, err := charts.Render(chart, options)
	if err != nil {
		t.Fatal(err)
	}
	stages, err := charts.Stages(options)
	if err != nil {
		t.Fatal(err)
	}
	var applied strings.Builder
	for _, st := range stages {
		applied.WriteString(st.Manifest)
	}
	byHelm := func(kind string) bool {
		return charts.InRelease(kind) || kind == "Lease" || kind == "CustomResourceDefinition"
	}
	byOrchestrator := func(kind string) bool { return !charts.InRelease(kind) && kind != "PodTemplate" }
	return manifest(t, ofKinds(helm, byHelm)), manifest(t, ofKinds(applied.String(), byOrchestrator))
}

// ofKinds returns the documents whose kind is wanted.
func ofKinds(text string, wanted func(kind string) bool) string {
	var out strings.Builder
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		_, kind, ok := strings.Cut("\n"+document, "\nkind: ")
		kind, _, _ = strings.Cut(kind, "\n")
		if ok && wanted(kind) {
			out.WriteString("---\n" + document + "\n")
		}
	}
	return out.String()
}

// permitted is in the output of try if the orchestrator may do what it tried.
const permitted = "this is permitted"

// theOrchestratorCannot tries what the account must not do. try runs kubectl with the account.
func theOrchestratorCannot(t *testing.T, try func(t *testing.T, args ...string) string) {
	t.Helper()
	const (
		agents    = "-n=" + agentNamespace
		forbidden = "is forbidden"
	)
	pod := func(spec string) string {
		return manifest(t, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "thief", "namespace": "`+agentNamespace+`"}, "spec": `+spec+`}`)
	}
	thief := manifest(t, `{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "thief", "namespace": "`+agentNamespace+`"}, "spec": {
		"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "thief"}]}}}}`)
	lease := manifest(t, `{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "thief", "namespace": "default"}}`)
	class := manifest(t, `{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "thief"}, "handler": "runc"}`)
	policy := manifest(t, `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "thief"}, "spec": {
		"matchConstraints": {"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}, "validations": [{"expression": "false"}]}}`)
	event := manifest(t, `{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "thief", "namespace": "default"}, "type": "Warning", "reason": "R", "message": "m",
		"involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "n1"}, "source": {"component": "outrigger"}}`)
	agenttest.Poll(t, "the policies of the release to be in effect", func() bool {
		return strings.Contains(try(t, "delete", agents, "configmap/others", "--dry-run=server"), "deletes only objects")
	})
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"change a Node":                 {[]string{"label", "node", "n1", "a=b"}, forbidden},
		"take a Lease":                  {[]string{"create", "-f", lease}, forbidden},
		"create an account":             {[]string{"create", "serviceaccount", agents, "thief"}, forbidden},
		"create a role":                 {[]string{"create", "role", agents, "thief", "--verb=get", "--resource=pods"}, forbidden},
		"bind a role":                   {[]string{"create", "clusterrolebinding", "thief", "--clusterrole=view", "--serviceaccount=default:default"}, forbidden},
		"create a policy":               {[]string{"create", "-f", policy}, forbidden},
		"delete its policy":             {[]string{"delete", "validatingadmissionpolicy", "workloads." + release + "-orchestrator." + releaseNamespace}, forbidden},
		"create a RuntimeClass":         {[]string{"create", "-f", class}, forbidden},
		"delete a Namespace":            {[]string{"delete", "namespace", "kube-node-lease", "--dry-run=server"}, forbidden},
		"change another CRD":            {[]string{"auth", "can-i", "patch", "crd/others.example.org"}, "no"},
		"create a CRD":                  {[]string{"auth", "can-i", "create", "crd"}, "no"},
		"read Secrets":                  {[]string{"get", "secrets", "-A"}, forbidden},
		"read ConfigMaps elsewhere":     {[]string{"get", "configmaps", "-n=kube-system"}, forbidden},
		"run a command":                 {[]string{"auth", "can-i", "create", "pods", "--subresource=exec", agents}, "no"},
		"run a pod elsewhere":           {[]string{"run", "-n=kube-system", "thief", "--image=thief"}, forbidden},
		"apply a DaemonSet of any name": {[]string{"apply", "--server-side", "-f", thief}, forbidden},
		"apply a ConfigMap of any name": {[]string{"create", "configmap", agents, "thief"}, forbidden},
		"delete an object of others":    {[]string{"delete", agents, "configmap/others"}, "the orchestrator deletes only objects that it has applied"},
		"run another image":             {[]string{"create", "-f", pod(`{"containers": [{"name": "a", "image": "thief"}]}`)}, "the Helm release does not have these images: thief"},
		"mount another folder": {[]string{"create", "-f", pod(`{"containers": [{"name": "a", "image": "outrigger.dev/device-plugin:1"}],
			"volumes": [{"name": "a", "hostPath": {"path": "/etc/kubernetes"}}]}`)}, "the Helm release does not have these folders of the host: /etc/kubernetes"},
		"send an Event about a Node":     {[]string{"create", "-f", event}, "the orchestrator sends Events about ClusterPolicies only"},
		"act as the account of an agent": {[]string{"create", "token", agents, release + "-device-plugin"}, forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			if out := try(t, tc.args...); !strings.Contains(out, tc.want) || strings.Contains(out, permitted) {
				t.Errorf("%s: %s, want an error that has %q", strings.Join(tc.args, " "), out, tc.want)
			}
		})
	}
}

// manifest returns a file with this text.
func manifest(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
