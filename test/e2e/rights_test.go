//go:build e2e

package e2e_test

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
	"outrigger.dev/test/e2e/stack"
	chartvalues "outrigger.dev/test/e2e/stack/values"
)

// orchestratorAccount is that of the chart orchestrator, under the chart's name.
const orchestratorAccount = "--as=system:serviceaccount:" + stack.Namespace + ":orchestrator"

// TestTheRightsOfTheOrchestrator applies and deletes what all charts render as the
// orchestrator, with its role alone, and then tries what it must not do.
func TestTheRightsOfTheOrchestrator(t *testing.T) {
	bare(t)
	if err := shared.Install(t.Context(), stack.Release{Chart: "orchestrator", NoWait: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.Uninstall(context.WithoutCancel(t.Context()), "orchestrator"); err != nil {
			t.Error(err)
		}
	})
	var files []string
	for _, variant := range []string{
		"feature-discovery/defaults", "feature-discovery/nodefeature", "container-toolkit/defaults", "device-plugin/guarded", "dra-plugin/defaults",
	} {
		file := manifest(t, rendered(t, variant))
		files = append(files, file)
		// All objects of one chart have the same names, so that the next one is an upgrade.
		t.Cleanup(func() { kubectlCleanup(t, "delete", "--ignore-not-found", "--wait=false", "-f", file) })
		kubectl(t, "apply", "--server-side", "--field-manager=outrigger", "-f", file, orchestratorAccount)
	}
	for _, file := range files {
		kubectl(t, "delete", "--ignore-not-found", "--cascade=foreground", "-f", file, orchestratorAccount)
	}
	t.Run("no more", theOrchestratorCannot)
}

func theOrchestratorCannot(t *testing.T) {
	elsewhere := manifest(t, strings.ReplaceAll(rendered(t, "container-toolkit/defaults"), "namespace: "+stack.Namespace, "namespace: kube-system"))
	pod := kubectl(t, "-n", stack.Namespace, "get", "pods", "-l", "app.kubernetes.io/name=orchestrator", "-o", "jsonpath={.items[0].metadata.name}")
	const given = "only to give it to agents"
	eviction := manifest(t, `{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "`+pod+`", "namespace": "`+stack.Namespace+`"}}`)
	slice := manifest(t, `{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "thief"}, "spec": {"driver": "gpu.nvidia.com",
		"nodeName": "`+gpuNode()+`", "pool": {"name": "thief", "generation": 1, "resourceSliceCount": 1}}}`)
	status := manifest(t, `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "`+gpuNode()+`"}, "status": {"phase": "Pending"}}`)
	lease := manifest(t, `{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "thief", "namespace": "kube-system"}}`)
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"change a Node":                  {[]string{"label", "node", gpuNode(), "a=b"}, "write nodes " + given},
		"change the status of a Node":    {[]string{"apply", "--server-side", "--subresource=status", "-f", status}, "write nodes/status " + given},
		"take a Lease":                   {[]string{"create", "-f", lease}, `cannot create resource "leases"`},
		"evict a pod":                    {[]string{"create", "--raw", "/api/v1/namespaces/" + stack.Namespace + "/pods/" + pod + "/eviction", "-f", eviction}, "write pods/eviction " + given},
		"offer devices":                  {[]string{"create", "-f", slice}, "write resourceslices " + given},
		"give a right that it lacks":     {[]string{"create", "clusterrole", "thief", "--verb=get", "--resource=secrets"}, "attempting to grant RBAC permissions not currently held"},
		"give all rights":                {[]string{"create", "clusterrolebinding", "thief", "--clusterrole=cluster-admin", "--serviceaccount=default:default"}, "attempting to grant RBAC permissions not currently held"},
		"read a Secret":                  {[]string{"get", "secrets", "-A"}, "forbidden"},
		"run a command":                  {[]string{"auth", "can-i", "create", "pods", "--subresource=exec"}, "no"},
		"install agents elsewhere":       {[]string{"apply", "--server-side", "-f", elsewhere}, "the orchestrator writes to the namespaces"},
		"run a pod elsewhere":            {[]string{"run", "-n", "kube-system", "thief", "--image=thief"}, "the orchestrator writes to the namespaces"},
		"change another Namespace":       {[]string{"label", "namespace", "kube-system", "a=b"}, "the orchestrator writes"},
		"delete another Namespace":       {[]string{"delete", "namespace", "kube-node-lease", "--dry-run=server"}, "the orchestrator writes"},
		"change another CRD":             {[]string{"auth", "can-i", "patch", "crd/others.example.org"}, "no"},
		"give a role outside of default": {[]string{"create", "role", "-n", "kube-system", "thief", "--verb=get", "--resource=pods"}, "the orchestrator writes to the namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := shared.Kubectl(t.Context(), append(tc.args, orchestratorAccount)...)
			if err == nil || !strings.Contains(out+err.Error(), tc.want) {
				t.Errorf("%s: %s, %v, want an error that has %q", strings.Join(tc.args, " "), out, err, tc.want)
			}
		})
	}
}

// rendered returns the objects of a chart with its defaults, "CHART/defaults", or with a file of values in
// the testdata of the charts.
func rendered(t *testing.T, variant string) string {
	t.Helper()
	name := path.Dir(variant)
	chart, err := charts.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if text, err := os.ReadFile(filepath.Join("../../charts/testdata", variant+".values.yaml")); err == nil {
		err = yaml.Unmarshal(text, &values)
		if err != nil {
			t.Fatal(err)
		}
	} else if path.Base(variant) != "defaults" {
		t.Fatal(err)
	}
	out, err := charts.Render(chart, charts.Release{Name: stack.Umbrella, Namespace: stack.Namespace, Kubernetes: "v1.37.1", Values: chartvalues.WithRegistry(values)})
	if err != nil {
		t.Fatal(err)
	}
	return out
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
