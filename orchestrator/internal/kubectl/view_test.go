package kubectl_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/orchestrator/internal/archive"
	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/view"
)

func TestCommandsOnACluster(t *testing.T) {
	r := newRig(t)
	t.Run("status", r.status)
	t.Run("top", r.top)
	t.Run("must-gather", r.gather)
	t.Run("must-gather that is interrupted", r.interrupted)
	t.Run("offline", r.offline)
	t.Run("rights that are missing", r.forbidden)
	t.Run("use", r.use)
	t.Run("status without an orchestrator", r.bare)
}

func contains(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("the output lacks %q:\n%s", w, out)
		}
	}
}

func (r rig) status(t *testing.T) {
	out, code := r.run("status")
	if code != 4 {
		t.Errorf("exit code %d, want 4, because a stage has failed", code)
	}
	contains(t, out, "No orchestrator works in this cluster", "ClusterPolicy gpu: ready", "device-plugin  Degraded", "ToolkitNotReady  gpu-2", "580.95.05", "registry.example.com/device-plugin:26.11.0")
	if strings.Contains(out, "\x1b") {
		t.Error("the output has colours, and is no terminal")
	}
	out, _ = r.run("status", "-o", "json")
	var v view.Status
	assert.NilError(t, json.Unmarshal([]byte(out), &v))
	if len(v.Nodes) != 2 || v.Nodes[0].Cause != "ToolkitNotReady" || v.Status.GPUNodes != 2 {
		t.Errorf("JSON %s", out)
	}
}

// Charts can install agents without an orchestrator.
func (r rig) bare(t *testing.T) {
	r.Cluster = r.In(t)
	r.Delete(cluster.PolicyRef("gpu"))
	out, code := r.run("status")
	if code != 3 {
		t.Errorf("exit code %d, want 3, because a node waits", code)
	}
	contains(t, out, "No orchestrator has installed the agents", "ToolkitNotReady  gpu-2", "registry.example.com/device-plugin:26.11.0")
}

func (r rig) top(t *testing.T) {
	out, code := r.run("top")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	contains(t, out, "1 of 2 GPU nodes ready, 8 of 16 devices offered, 3 allocated to 1 pods", "no pod of the agent dcgm-exporter is ready")
	out, code = r.run("top", "gpu-1")
	contains(t, out, "gpu-1: Ready", "ml         train  Running  nvidia.com/gpu=3")
	if code != 0 || strings.Contains(out, "gpu-2") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for node, want := range map[string]string{"other": "has no label of a GPU", "missing": "the cluster has no node missing"} {
		if out, code := r.run("top", node); code != 1 || !strings.Contains(out, want) {
			t.Errorf("top %s: exit code %d\n%s", node, code, out)
		}
	}
	if _, code := r.run("top", "a", "b"); code != 2 {
		t.Errorf("two nodes: exit code %d", code)
	}
}

func (r rig) use(t *testing.T) {
	r.Cluster = r.In(t)
	exporter := r.exporter("gpu-1")
	out, _ := r.run("top")
	contains(t, out, "73%")
	if strings.Contains(out, "not known") {
		t.Errorf("the output\n%s", out)
	}
	out, _ = r.run("top", "gpu-1")
	contains(t, out, "0    NVIDIA L4  -    -         73%", "ml/train")
	exporter.Close()
	out, code := r.run("top")
	contains(t, out, "1 of 1 exporters do not answer: read the metrics of the pod "+namespace+"/exporter-gpu-1", "NetworkPolicy")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func (r rig) gather(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "gathered")
	out, code := r.run("must-gather", "--dest", dest)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	contains(t, out, "Wrote "+dest, "3 logs", "kubectl outrigger doctor --offline "+dest)
	found := 0
	assert.NilError(t, filepath.WalkDir(dest, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		if i := strings.Index(string(text), seed); i >= 0 {
			t.Errorf("%s has a secret: %s", file, text[max(0, i-80):i+len(seed)])
		}
		found++
		return err
	}))
	text, err := os.ReadFile(filepath.Join(dest, "logs", namespace, "plugin-2", "device-plugin.previous.log"))
	assert.NilError(t, err)
	assert.Equal(t, string(text), "the log of "+namespace+"/plugin-2/device-plugin, previous: true\nlevel=info password=REMOVED token: REMOVED\n")
	f, err := archive.Read(dest)
	assert.NilError(t, err)
	if found != 16 || len(f.Nodes) != 3 || len(f.Pods) != 3 || len(f.Policies) != 1 || len(f.DaemonSets) != 1 || len(f.Events) != 1 {
		t.Errorf("%d files; read %d nodes, %d pods, %d policies, %d daemonsets, %d events", found, len(f.Nodes), len(f.Pods), len(f.Policies), len(f.DaemonSets), len(f.Events))
	}
	if out, code := r.run("must-gather", "--dest", dest); code != 1 || !strings.Contains(out, "choose another name with --dest") {
		t.Errorf("a second archive of this name: exit code %d\n%s", code, out)
	}
}

// An archive that does not become complete is removed.
func (r rig) interrupted(t *testing.T) {
	dir := t.TempDir()
	out, code := r.run("must-gather", "--dest", filepath.Join(dir, "a.tar.gz"), "--timeout", "1ns")
	entries, err := os.ReadDir(dir)
	assert.NilError(t, err)
	if code != 1 || len(entries) > 0 || !strings.Contains(out, "--timeout") {
		t.Errorf("exit code %d, files %v\n%s", code, entries, out)
	}
}

// A caller with few rights sees what is missing. A caller who cannot see nodes gets an error.
func (r rig) forbidden(t *testing.T) {
	r.Cluster = r.In(t)
	viewer := r.as("viewer", reads("", "nodes", "pods"), reads("apps", "daemonsets"))
	out, code := viewer.run("status")
	contains(t, out, "ToolkitNotReady  gpu-2", "Not seen:", "status of the orchestrator", "clusterpolicies.outrigger.dev is forbidden")
	if code != 3 {
		t.Errorf("status: exit code %d", code)
	}
	dest := filepath.Join(t.TempDir(), "a.tar.gz")
	out, code = viewer.run("must-gather", "--dest", dest)
	contains(t, out, "ClusterPolicies", "3 logs", "pods/log")
	if code != 0 {
		t.Errorf("must-gather: exit code %d", code)
	}
	f, err := archive.Read(dest)
	assert.NilError(t, err)
	if len(f.Nodes) != 3 || len(f.Answers) > 0 || len(f.Unseen) < 3 {
		t.Errorf("read %d nodes, unseen %v", len(f.Nodes), f.Unseen)
	}
	nobody := r.as("nobody")
	for _, command := range []string{"status", "top", "must-gather"} {
		t.Chdir(t.TempDir()) // must-gather writes its archive there
		out, code := nobody.run(command)
		if code != 1 || !strings.Contains(out, "nodes is forbidden") {
			t.Errorf("%s: exit code %d\n%s", command, code, out)
		}
	}
}
