package archive_test

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	"sigs.k8s.io/yaml"

	"outrigger.dev/orchestrator/internal/archive"
)

func TestNVIDIAsMustGatherIsRead(t *testing.T) {
	f, err := archive.Read("testdata/nvidia")
	assert.NilError(t, err)
	text, err := yaml.Marshal(f)
	assert.NilError(t, err)
	golden.Assert(t, string(text), "nvidia.golden")

	// oc adm must-gather puts the files below two folders.
	deep := filepath.Join(t.TempDir(), "must-gather.local", "quay-io-nvidia-sha256-1")
	assert.NilError(t, os.CopyFS(deep, os.DirFS("testdata/nvidia")))
	same, err := archive.Read(filepath.Dir(deep))
	assert.NilError(t, err)
	assert.Equal(t, asJSON(t, same), asJSON(t, f))

	// A cluster without GPU nodes has only some of the files.
	for _, file := range []string{"gpu_nodes.labels", "gpu_nodes.descr", "gpu_operand_ds.yaml", "cluster_policy.yaml"} {
		assert.NilError(t, os.Remove(filepath.Join(deep, file)))
	}
	assert.NilError(t, os.WriteFile(filepath.Join(deep, "cluster_policy.missing"), nil, 0o600))
	some, err := archive.Read(deep)
	assert.NilError(t, err)
	if len(some.Nodes)+len(some.DaemonSets)+len(some.Others) > 0 || len(some.Pods) != 2 || len(some.Unseen) != len(f.Unseen)+3 {
		t.Errorf("read %s", asJSON(t, some))
	}
}
