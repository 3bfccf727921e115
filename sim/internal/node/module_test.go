package node_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/arch"
	"outrigger.dev/sim/internal/kmod"
	"outrigger.dev/sim/internal/node"
)

// TestModulesAreLoadedAsByAKernel loads and unloads a driver's modules on a node without one.
func TestModulesAreLoadedAsByAKernel(t *testing.T) {
	needRoot(t)
	cfg := config(t, "h100-80", 2)
	cfg.Spec.DriverOff = true
	n := create(t, cfg)
	release, err := node.Release()
	assert.NilError(t, err)
	const version = "590.44.01"
	firmware := filepath.Join(t.TempDir(), "firmware")
	place := filepath.Join(firmware, "nvidia", version, "gsp_sim.bin")
	assert.NilError(t, os.MkdirAll(filepath.Dir(place), 0o755))
	write(t, place, "")
	write(t, filepath.Join(n.Root(), "sys/module/firmware_class/parameters/path"), firmware+"\n")
	t.Cleanup(func() { _ = unix.Unmount(place, unix.MNT_DETACH) })

	stack := map[string]kmod.Module{}
	for _, m := range kmod.Stack(version, release) {
		stack[m.Name] = m
	}
	load := func(name string, params ...string) error { return n.LoadModule(stack[name], params) }
	refuses := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	other := stack["nvidia"]
	other.Vermagic = "1.2.3 SMP"
	refuses("a module of another kernel", n.LoadModule(other, nil), unix.ENOEXEC)
	refuses("a module before the one that it needs", load("nvidia_uvm"), unix.ENOENT)
	refuses("a module whose initialization fails", load("nvidia", "sim_init_errno=5"), unix.EIO)
	if snap := n.State().Show(); snap.Driver.Loaded || n.Served("/dev/nvidiactl") {
		t.Errorf("the driver is loaded: %+v", snap.Driver)
	}
	for _, name := range []string{"nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm"} {
		assert.NilError(t, load(name, "modeset=1", "unknown=1"), "%s", name)
	}
	refuses("a module that is loaded", load("nvidia"), unix.EEXIST)
	if snap := n.State().Show(); !snap.Driver.Loaded || snap.Driver.Version != version || !n.Served("/host/dev/nvidia1") || n.Served("/dev/nvidia-uvm") {
		t.Errorf("the driver is %+v", snap.Driver)
	}
	if state, err := os.Stat(place); err != nil || state.Size() == 0 {
		t.Errorf("the state is not in the driver's firmware: %v", err)
	}
	for path, want := range map[string]string{
		"sys/module/nvidia/refcnt": "2", "sys/module/nvidia_uvm/refcnt": "0", "sys/module/nvidia_drm/parameters/modeset": "1",
		"sys/module/nvidia/initstate": "live", "sys/module/nvidia/version": version,
	} {
		if got := strings.TrimSpace(read(t, filepath.Join(n.Root(), path))); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if got := read(t, filepath.Join(n.Root(), "proc/driver/nvidia/version")); !strings.Contains(got, version) {
		t.Error(got)
	}
	if _, err := os.Lstat(filepath.Join(n.Root(), "dev/nvidiactl")); err == nil {
		t.Error("the kernel has made a device node")
	}

	refuses("a module that others depend on", n.UnloadModule("nvidia"), unix.EWOULDBLOCK)
	for _, name := range []string{"nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia"} {
		assert.NilError(t, n.UnloadModule(name), "%s", name)
	}
	refuses("a module that is not loaded", n.UnloadModule("nvidia"), unix.ENOENT)
	if _, err := os.Lstat(filepath.Join(n.Root(), "proc/driver/nvidia")); n.State().Show().Driver.Loaded || err == nil {
		t.Errorf("the driver is still there: %v", err)
	}
	if state, err := os.Stat(place); err != nil || state.Size() != 0 {
		t.Errorf("the state is still in the driver's firmware: %v", err)
	}
}

func TestADriverImageHasModulesAndNoState(t *testing.T) {
	needRoot(t)
	n := create(t, config(t, "h100-80", 1))
	dir := filepath.Join(t.TempDir(), "image")
	const version = "590.44.01"
	assert.NilError(t, n.WriteImage(dir, version, "6.1.0-1-amd64", kmod.Stack(version, "6.1.0-1-amd64")))
	for path, want := range map[string]bool{
		"lib/firmware/nvidia/" + version + "/gsp_sim.bin": true, arch.Libraries + "/libnvidia-ml.so." + version: true,
		"lib/modules/6.1.0-1-amd64/updates/nvidia-uvm.ko": true, "usr/bin/nvidia-smi": true, "usr/bin/nvidia-persistenced": true,
	} {
		if _, err := os.Lstat(filepath.Join(dir, path)); (err == nil) != want {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "lib/firmware/nvidia", version, "gsp_sim.bin")); err != nil || info.Size() != 0 {
		t.Errorf("the state's file: %v", err)
	}
	if err := n.WriteImage(dir, version, "r", nil); err == nil {
		t.Error("a folder that is there is overwritten")
	}
}
