package cdihook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/container-toolkit/internal/rootfs/rootfstest"
)

func TestKeepDevices(t *testing.T) {
	if !rootfstest.InNamespace(t, 0) {
		return
	}
	const params = "Mobile: 0\nModifyDeviceFiles: 1\n"
	root, dir := openImage(t, map[string]string{paramsFile: params, "proc/driver/nvidia/version": "580"})
	host := filepath.Join(t.TempDir(), "params")
	if err := os.WriteFile(host, []byte(params), 0o444); err != nil {
		t.Fatal(err)
	}
	warn := func(w string) { t.Error(w) }
	for range 2 {
		if err := keepDevices(root, host, warn); err != nil {
			t.Fatal(err)
		}
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
	if err := os.WriteFile(seen, nil, 0o444); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("writing the parameters = %v", err)
	}
	if got, err := os.ReadFile(host); err != nil || string(got) != params {
		t.Errorf("the host's parameters = %q, %v", got, err)
	}
}

func TestKeepDevicesWithoutADriver(t *testing.T) {
	root, _ := openImage(t, nil)
	host := filepath.Join(t.TempDir(), "params")
	if err := keepDevices(root, host, nil); err != nil {
		t.Errorf("without a driver: %v", err)
	}
	if err := os.WriteFile(host, []byte("ModifyDeviceFiles: 1\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	if err := keepDevices(root, host, nil); err != nil {
		t.Errorf("without /proc in the container: %v", err)
	}
}
