package app_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"outrigger.dev/orchestrator/internal/app"
	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
)

func TestMain(m *testing.M) {
	agenttest.Main(m, func() { agent.Main(app.App()) })
}

// program returns the orchestrator as a process of its own.
func (w *world) program(args ...string) *exec.Cmd {
	w.Helper()
	return agenttest.Command(w, nil, append(args, "--kubeconfig="+w.config)...)
}

// must runs a command that has to succeed.
func (w *world) must(args ...string) string {
	w.Helper()
	var out, errs strings.Builder
	cmd := w.program(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		w.Fatalf("orchestrator %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String()
}

func inventoryRef() model.Ref {
	return model.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "gpu-operator", Name: "outrigger-inventory"}
}

// listed reports whether the inventory has an object.
func (w *world) listed(r model.Ref) bool {
	w.Helper()
	o := w.Get(inventoryRef())
	if o == nil {
		return false
	}
	text, err := json.Marshal(r)
	if err != nil {
		w.Fatal(err)
	}
	data, _, _ := unstructured.NestedString(o.Object, "data", "inventory.json")
	return strings.Contains(data, string(text))
}

func agentsNamespace() model.Ref {
	return model.Ref{APIVersion: "v1", Kind: "Namespace", Name: agents}
}

// nothingLeft checks that delete has removed all, but for the namespaces of others.
func (w *world) nothingLeft() {
	w.Helper()
	for _, r := range []model.Ref{daemonSet("device-plugin"), daemonSet("container-toolkit"), eventRole(), inventoryRef()} {
		if w.Get(r) != nil {
			w.Errorf("%s is left", r)
		}
	}
	for _, r := range []model.Ref{agentsNamespace(), {APIVersion: "v1", Kind: "Namespace", Name: "gpu-operator"}} {
		if o := w.Get(r); o == nil || o.GetDeletionTimestamp() != nil {
			w.Errorf("%s of others is %v", r, o)
		}
	}
}

// TestCommands runs the commands on one API server, one after the other, without a node.
func TestCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	off := values(t, "devicePlugin: {enabled: false}\nvalidator: {enabled: true}")
	t.Run("apply, status, dry-run and delete, without a node", func(t *testing.T) { testApply(w.in(t), off) })
	t.Run("a namespace in which others have objects is kept", func(t *testing.T) { testKept(w.in(t)) })
	// Kubernetes takes 5 s to delete a namespace, so the others use those that are there.
	w.Create(newNamespace("gpu-operator"))
	t.Run("an apply that was killed has listed what it applied, and the next one ends its work", func(t *testing.T) {
		w := w.in(t)
		cmd := w.program("apply")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		p := agenttest.Start(t, cmd)
		if line := firstLine(t, out, "ServiceAccount"); !strings.HasPrefix(line, "created ") {
			t.Errorf("the line is %q", line)
		}
		p.Kill()
		if !w.listed(daemonSet("device-plugin")) {
			t.Error("the inventory does not list what was to be applied")
		}
		w.must("apply")
		if w.Get(daemonSet("device-plugin")) == nil {
			t.Error("the device plugin is not applied")
		}
		w.must("delete", "--timeout=3m")
		w.nothingLeft()
	})
	t.Run("without prune, what left the values stays, and delete removes it", func(t *testing.T) {
		w := w.in(t)
		w.must("apply")
		w.must("apply", "--prune=false", "-f", off)
		if w.Get(daemonSet("device-plugin")) == nil || !w.listed(daemonSet("device-plugin")) {
			t.Error("the device plugin is deleted, or not listed any more")
		}
		if out := w.must("status"); !strings.Contains(out, "container-toolkit") {
			t.Errorf("status printed\n%s", out)
		}
		w.must("delete", "--timeout=3m")
		w.nothingLeft()
	})
	t.Run("what others have is adopted only if asked", func(t *testing.T) { testAdopt(w.in(t)) })
}

// TestCommandsWithANode runs the commands that wait for the agents of a node.
func TestCommandsWithANode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(newNamespace("gpu-operator"))
	w.Create(newNamespace(agents))
	w.gpuNode("gpu-1")
	off := values(t, "devicePlugin: {enabled: false}\nvalidator: {enabled: true}")
	t.Run("apply --wait ends when all is ready", func(t *testing.T) { testWait(w.in(t), off) })
	t.Run("delete does the work of an orchestrator that does not run", func(t *testing.T) {
		w := w.in(t)
		stop := w.start()
		w.Create(newPolicy("gpu-operator", map[string]any{}))
		w.until("is applied", daemonSet("container-toolkit"), exists)
		stop()
		w.must("delete", "--timeout=3m")
		w.nothingLeft()
	})
}

// byPerson creates an object in the namespace of the agents, as kubectl does.
func (w *world) byPerson(resource, kind string) model.Ref {
	w.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": "mine", "namespace": agents},
	}}
	all := w.Client.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(agents)
	if _, err := all.Create(w.Context(), o, metav1.CreateOptions{FieldManager: "kubectl-create"}); err != nil {
		w.Fatal(err)
	}
	return model.RefOf(o)
}

// testKept deletes while a person has a Secret in the namespace of the agents.
func testKept(w *world) {
	w.must("apply")
	secret := w.byPerson("secrets", "Secret")
	out := w.must("delete", "--verify", "--timeout=3m")
	if !strings.Contains(out, "left: Namespace "+agents+" is kept") || !strings.Contains(out, "Secret mine") {
		w.Errorf("delete printed\n%s", out)
	}
	if w.Get(secret) == nil {
		w.Error("the Secret is gone")
	}
	if o := w.Get(agentsNamespace()); o == nil || cluster.Ours(o) || len(o.GetLabels()) != 1 || o.GetDeletionTimestamp() != nil {
		w.Errorf("the namespace is %v", o)
	}
	if w.Get(daemonSet("device-plugin")) != nil || w.Get(eventRole()) != nil || w.Get(inventoryRef()) != nil {
		w.Error("something of the agents is left")
	}
}

// firstLine reads until a line with this text, and returns it.
func firstLine(t *testing.T, from io.Reader, text string) string {
	t.Helper()
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return lines.Text()
		}
	}
	t.Fatalf("no line has %q: %v", text, lines.Err())
	return ""
}

func testAdopt(w *world) {
	role := eventRole()
	w.Create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": role.APIVersion, "kind": role.Kind, "metadata": map[string]any{"name": role.Name, "namespace": role.Namespace}, "rules": []any{},
	}})
	agenttest.Fails(w, w.program("apply"), 1, role.String()+" exists")
	if w.Get(daemonSet("device-plugin")) != nil || w.Get(model.Ref{APIVersion: "v1", Kind: "ServiceAccount", Namespace: agents, Name: "gpu-operator-device-plugin"}) != nil {
		w.Error("something was applied")
	}
	plugin := daemonSet("device-plugin")
	labels := map[string]any{"app": "theirs"}
	w.Create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": plugin.APIVersion, "kind": plugin.Kind, "metadata": map[string]any{"name": plugin.Name, "namespace": plugin.Namespace},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
				"containers": []any{map[string]any{"name": "theirs", "image": "theirs"}},
			}},
		},
	}})
	agenttest.Fails(w, w.program("apply", "--adopt"), 1, "field is immutable; delete the object, and the orchestrator creates it again: kubectl delete daemonset "+plugin.Name+" -n "+plugin.Namespace)
	w.Delete(plugin)
	agenttest.Poll(w, "the end of their DaemonSet", func() bool { return w.Get(plugin) == nil })
	w.must("apply", "--adopt")
	if o := w.Get(role); !cluster.Ours(o) {
		w.Error("the Role is not taken over")
	}
	w.must("delete", "--timeout=3m")
	w.nothingLeft()
}

func testWait(w *world, off string) {
	on := values(w.T, "validator: {enabled: true}")
	out := w.must("apply", "--wait", "--timeout=3m", "-f", on)
	if !strings.Contains(out, "1 of 1 nodes with GPUs are ready") || !strings.Contains(out, "Passed") {
		w.Errorf("apply --wait printed\n%s", out)
	}
	if out := w.must("status"); !strings.Contains(out, "Reconciled: 1 of 1 GPU node ready") || !strings.Contains(out, "Passed") {
		w.Errorf("status printed\n%s", out)
	}
	w.must("apply", "-f", values(w.T, "validator: {enabled: true}\npools: [{name: a, nodeSelector: {pool: a}}, {name: b, nodeSelector: {pool: b}}]"))
	if out := w.must("status"); strings.Contains(out, "PoolsOverlap") || !strings.Contains(out, "device-plugin/a") {
		w.Errorf("with two pools that do not select the node, status printed\n%s", out)
	}
	w.must("apply", "--wait", "--timeout=3m", "-f", off)
	for _, r := range []model.Ref{daemonSet("device-plugin"), eventRole()} {
		if w.Get(r) != nil || w.listed(r) {
			w.Errorf("%s left the values, and is still there or listed", r)
		}
	}
	out = w.must("status")
	if fields := strings.Fields(out); slices.Contains(fields, "device-plugin") || !slices.Contains(fields, "container-toolkit") {
		w.Errorf("status printed\n%s", out)
	}
	// The label by which the test made the node one with a GPU is not an agent's.
	w.must("delete", "--verify", "--timeout=3m")
	w.nothingLeft()
}

func testApply(w *world, off string) {
	out := w.must("apply", "--dry-run")
	if !strings.Contains(out, "+kind: DaemonSet") {
		w.Errorf("the diff has no DaemonSet:\n%.2000s", out)
	}
	if got := words(w.must("apply")); got != "created" {
		w.Errorf("the first apply has %q", got)
	}
	if got := words(w.must("apply")); got != "unchanged" {
		w.Errorf("the second apply has %q", got)
	}
	if out := w.must("apply", "--dry-run"); out != "" {
		w.Errorf("the diff after apply is not empty:\n%.2000s", out)
	}
	if out := w.must("status"); !strings.Contains(out, "device-plugin") || !strings.Contains(out, "no node matches") {
		w.Errorf("status printed\n%s", out)
	}
	if got := words(w.must("apply", "-f", off)); !strings.Contains(got, "deleting unchanged") {
		w.Errorf("apply without the device plugin has %q", got)
	}
	agenttest.Fails(w, w.program("apply", "--wait", "--timeout=5s"), 1, "not ready in time", "NFDLabelsMissing")
	if out := w.must("delete", "--verify", "--timeout=3m"); !strings.Contains(out, "nothing is left") {
		w.Errorf("delete printed\n%s", out)
	}
	for _, r := range []model.Ref{daemonSet("device-plugin"), eventRole(), agentsNamespace(), inventoryRef()} {
		if w.Get(r) != nil {
			w.Errorf("%s is left", r)
		}
	}
}
