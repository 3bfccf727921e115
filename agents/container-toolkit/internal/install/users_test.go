package install_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/install"
)

func TestUsers(t *testing.T) {
	root, proc := t.TempDir(), t.TempDir()
	r := &rig{T: t}
	const tools = "/usr/local/nvidia/toolkit"
	bundles := "/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io"
	r.put(filepath.Join(root, bundles, "with", "runtime"), tools+"/nvidia-container-runtime", 0o600)
	r.put(filepath.Join(root, bundles, "without", "runtime"), "runc", 0o600)
	r.put(filepath.Join(root, bundles, "similar", "runtime"), tools+"2/nvidia-container-runtime", 0o600)
	process := func(pid, cmdline, cwd string) {
		r.put(filepath.Join(proc, pid, "cmdline"), cmdline, 0o600)
		assert.NilError(t, os.Symlink(cwd, filepath.Join(proc, pid, "cwd")))
	}
	process("7", "containerd-shim-runc-v2\x00-id\x00without", bundles+"/without")
	process("8", "containerd-shim-runc-v2\x00-id\x00without", bundles+"/without")
	process("9", "/usr/bin/conmon\x00-r\x00"+tools+"/nvidia-container-runtime\x00", "/")
	process("10", "/usr/bin/conmon\x00-r\x00/usr/bin/runc\x00", "/")
	process("11", "grep\x00"+tools+"\x00", "/")
	r.put(filepath.Join(proc, "version"), "Linux", 0o600)
	want := []string{bundles + "/with", "process 9"}
	if d := cmp.Diff(want, install.Users(proc, root, tools)); d != "" {
		t.Errorf("users (-want +got):\n%s", d)
	}
}
