package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/procowner"
)

// TestOwnersOfProcesses has a process of a pod, a service, a process that has ended, and one that the driver hides. kubectl outrigger
// reads the golden file too.
func TestOwnersOfProcesses(t *testing.T) {
	const uid = "0f0c3f2e-52a7-4b38-9cf8-5d6f1a1e3c11"
	root := procowner.Root{Proc: t.TempDir(), PodLogs: t.TempDir()}
	for name, content := range map[string]string{
		"4711/comm": "python3\n", "4711/cgroup": "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + uid + ".slice/cri-containerd-" +
			"ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12.scope\n",
		"812/comm": "Xorg\n", "812/cgroup": "0::/system.slice/gdm.service\n",
	} {
		file := filepath.Join(root.Proc, name)
		assert.NilError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		assert.NilError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	assert.NilError(t, os.Mkdir(filepath.Join(root.PodLogs, "team_etl_"+uid), 0o700))
	list := processesOn(gpu.GPU{Index: 0, UUID: "GPU-0"}, []telemetry.Process{
		{PID: 4711, Instance: gpu.NoInstance, Memory: 20 << 30}, {PID: 812, Instance: gpu.NoInstance, Memory: 5 << 20}, {PID: 99, Instance: 2}, {PID: 0, Instance: 2},
	})
	addOwners(root, list)
	out, err := json.MarshalIndent(map[string]any{"processes": list}, "", "  ")
	assert.NilError(t, err)
	golden.Assert(t, string(out)+"\n", "processes.golden")
}
