package cdihook

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/rootfs/rootfstest"
)

func TestKeepDevices(t *testing.T) {
	if !rootfstest.InNamespace(t, 0) {
		return
	}
	const params = "Mobile: 0\nModifyDeviceFiles: 1\n"
	root, dir := openImage(t, map[string]string{paramsFile: params, "proc/driver/nvidia/version": "580"})
	host := filepath.Join(t.TempDir(), "params")
	assert.NilError(t, os.WriteFile(host, []byte(params), 0o444))
	warn := func(w string) { t.Error(w) }
	for range 2 {
		assert.NilError(t, keepDevices(root, host, warn))
	}
	seen := filepath.Join(dir, paramsFile)
	defer unix.Unmount(seen, unix.MNT_DETACH)
	defer unix.Unmount(seen, unix.MNT_DETACH)
	if got, err := os.ReadFile(seen); err != nil || string(got) != "Mobile: 0\nModifyDeviceFiles: 0\n" {
		t.Errorf("parameters in the container = %q, %v", got, err)
	}
	if got, err := os.ReadFile(filepath.Join(filepath.Dir(seen), "version")); err != nil || string(got) != "580" {
		t.Errorf("the file beside it = %q, %v", got, err)
	}
	assert.ErrorContains(t, os.WriteFile(seen, nil, 0o444), "read-only")
	if got, err := os.ReadFile(host); err != nil || string(got) != params {
		t.Errorf("the host's parameters = %q, %v", got, err)
	}
}

func TestKeepDevicesWithoutADriver(t *testing.T) {
	root, _ := openImage(t, nil)
	host := filepath.Join(t.TempDir(), "params")
	assert.NilError(t, keepDevices(root, host, nil), "without a driver")
	assert.NilError(t, os.WriteFile(host, []byte("ModifyDeviceFiles: 1\n"), 0o444))
	assert.NilError(t, keepDevices(root, host, nil), "without /proc in the container")
}
