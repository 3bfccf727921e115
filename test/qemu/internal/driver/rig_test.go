//go:build e2e

package driver_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	store      = "/var/lib/outrigger/driver"
	parameters = "/drivers/nvidia.conf"
	gpu        = "0000:00:05.0"
	// The versions of the driver in the store. One does not initialize, one needs a module of the
	// kernel that the guest does not have, and two have modules for other kernels, and no sources.
	first, second, broken, dependent = "580.95.05", "580.105.08", "590.44.01", "590.44.02"
	otherOptions, otherKernel        = "580.95.06", "580.95.07"
)

// guest skips a test outside of a guest, and gives the guest its GPU.
func guest(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/guest/args"); err != nil {
		t.Skip("this machine has no kernel to load modules into: the test runs in a guest")
	}
	for _, program := range []string{"make", "gcc", "cc"} {
		if path, err := exec.LookPath(program); err == nil {
			t.Fatalf("the guest has %s: nothing here shows that modules are not built again", path)
		}
	}
	write(t, parameters, "sim_gpus="+gpu+"\nNVreg_OpenRmEnableUnsupportedGpus=0\n")
	// The emulator has no device with NVIDIA's numbers.
	for file, content := range map[string]string{"vendor": "0x10de", "device": "0x2330", "class": "0x030200"} {
		own := filepath.Join("/guest", file)
		write(t, own, content+"\n")
		if err := unix.Mount(own, filepath.Join("/sys/bus/pci/devices", gpu, file), "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// succeeds runs a command of the agent, and returns what it printed.
func succeeds(t *testing.T, version, command string) string {
	t.Helper()
	out, err := run(t, version, command)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// fails runs a command of the agent that fails, and checks that it prints all parts.
func fails(t *testing.T, version, command string, parts ...string) {
	t.Helper()
	out, err := run(t, version, command)
	if err == nil {
		t.Fatalf("%s succeeded\n%s", command, out)
	}
	has(t, out, parts...)
}

func has(t *testing.T, out string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in:\n%s", part, out)
		}
	}
}

func run(t *testing.T, version, command string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "driver-loader", "--driver-version="+version, "--drm-enabled", command).CombinedOutput()
	return string(out), err
}

// loaded fails the test unless the driver is loaded in a version, "" for not.
func loaded(t *testing.T, version string) {
	t.Helper()
	for _, name := range []string{"nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm"} {
		if got := versionOf(t, name); got != version {
			t.Errorf("%s has the version %q, want %q", name, got, version)
		}
	}
}

func versionOf(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/sys/module", name, "version"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// hold opens a device. The test closes it.
func hold(t *testing.T, device string) *os.File {
	t.Helper()
	f, err := os.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return f
}

// output is what a program prints, while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// until waits for a condition.
func until(t *testing.T, out *output, what string, condition func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-limit:
			t.Fatalf("not %s:\n%s", what, out)
		case <-tick.C:
		}
	}
}
