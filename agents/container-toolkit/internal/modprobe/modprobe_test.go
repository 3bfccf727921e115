package modprobe_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/modprobe"
)

func TestUnloaded(t *testing.T) {
	sys := t.TempDir()
	assert.NilError(t, os.MkdirAll(filepath.Join(sys, "module/nvidia_uvm"), 0o755))
	if d := cmp.Diff([]string{"nvidia", "nvidia-modeset"}, modprobe.Unloaded(sys)); d != "" {
		t.Errorf("modules (-want +got):\n%s", d)
	}
}

// A driver root that has no modprobe is named, with the module.
func TestLoadNamesWhatFails(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change the root folder")
	}
	root := t.TempDir()
	err := modprobe.Load(t.Context(), root, []string{"nvidia"})
	assert.ErrorContains(t, err, "load kernel module nvidia with /sbin/modprobe of driver root "+root)
}
