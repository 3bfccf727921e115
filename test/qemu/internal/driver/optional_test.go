//go:build e2e

package driver_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// adapter is the PCI address of the network adapter.
const adapter = "0000:00:06.0"

// TestOptional has a network adapter, and a driver whose optional modules fail: nvidia_peermem was built
// without the headers of the adapter's driver, and nvidia_fs finds no device. gdrdrv was built from its own
// sources.
func TestOptional(t *testing.T) {
	guest(t)
	write(t, "/guest/adapter", "0x15b3\n")
	if err := unix.Mount("/guest/adapter", filepath.Join("/sys/bus/pci/devices", adapter, "vendor"), "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Run("they do not hold the driver back", func(t *testing.T) {
		out := selected(t, "load")
		loaded(t, second)
		ready(t, second)
		has(t, out, "driver "+second+" is ready",
			"module=nvidia_peermem code=RDMAUnavailable", "built without the headers of the network adapters' driver",
			"module=nvidia_fs code=GDSUnavailable", "the symbol of the storage driver is missing; nvidia_fs: initialization failed",
			`msg="loading module" module=gdrdrv version=2.5`)
		if got := versionOf(t, "gdrdrv"); got != "2.5" {
			t.Errorf("gdrdrv has the version %q", got)
		}
	})
	t.Run("the plan names them", func(t *testing.T) {
		has(t, selected(t, "plan"), "RDMAUnavailable", "GDSUnavailable", "gdrdrv           ok     loaded", "the driver works without it")
	})
	t.Run("they do not hold an upgrade back", func(t *testing.T) {
		succeeds(t, first, "load")
		has(t, selected(t, "load"), "driver "+second+" is ready")
		loaded(t, second)
		ready(t, second)
	})
}

// selected runs a command that succeeds, with all optional modules, for the second version.
func selected(t *testing.T, command string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "driver-loader", "--driver-version="+second, "--drm-enabled",
		"--gpu-direct-rdma-enabled", "--gds-enabled", "--gdrcopy-enabled", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// TestHalfLoaded has an agent that is killed while it loads the first driver. The next driver does not work.
func TestHalfLoaded(t *testing.T) {
	guest(t)
	kill(t, first, "module=nvidia_modeset")
	if got := versionOf(t, "nvidia"); got != first {
		t.Fatalf("nvidia has the version %q", got)
	}
	fails(t, broken, "load", "driver "+first+" was loaded again", "asked to fail with error 5")
	loaded(t, first)
	ready(t, first)
	shows(t, "/proc/driver/nvidia/params", "OpenRmEnableUnsupportedGpus: 0")
	shows(t, "/proc/driver/nvidia/gpus/"+gpu+"/information", "Device Minor: \t 0")
}

// TestForeignMount has a program that mounts over the driver root, as NVIDIA's driver container does.
func TestForeignMount(t *testing.T) {
	guest(t)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	var out output
	agent := exec.CommandContext(t.Context(), "driver-loader", "--driver-version="+first, "--drm-enabled", "--listen=")
	agent.Stdout, agent.Stderr = &out, &out
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	const library = "usr/lib/x86_64-linux-gnu/libnvidia-ml.so." + first
	shown := func() bool {
		_, err := os.Stat(filepath.Join("/run/nvidia/driver", library))
		return err == nil
	}
	until(t, &out, "ready", func() bool { return strings.Contains(out.String(), "driver is ready") && shown() })
	began := time.Now()
	if err := unix.Mount("tmpfs", "/run/nvidia/driver", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob(filepath.Join(store, "drivers", first+"-*", "root", library)); err != nil || len(files) != 1 {
		t.Errorf("the store has the foreign mount: %q, %v", files, err)
	}
	until(t, &out, "mounted again", shown)
	t.Logf("the driver root was mounted again after %.1f s", time.Since(began).Seconds())
	has(t, out.String(), "another program has changed the mount of the driver root")
	if err := agent.Process.Signal(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := agent.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
}
