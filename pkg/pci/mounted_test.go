package pci_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/pci"
)

// inNamespace is set in a process with its own mount namespace.
const inNamespace = "PCI_TEST_IN_NAMESPACE"

// TestWatchNoticesATreeOverTheBus watches the bus of the machine, and mounts the bus of a simulated node over it.
func TestWatchNoticesATreeOverTheBus(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		watchMounted(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("making mounts needs root")
	}
	if _, err := os.Stat("/sys/bus/pci/devices"); err != nil {
		t.Skipf("this machine has no PCI bus: %v", err)
	}
	self, err := os.Executable()
	assert.NilError(t, err)
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, "%s", out)
	assert.Check(t, strings.Contains(string(out), "--- PASS: "+t.Name()), "%s", out)
}

func watchMounted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	gpus := make(chan string, 100)
	go pci.Watch(ctx, "/sys", slog.New(slog.DiscardHandler), func() {
		found, err := pci.Scan("/sys")
		n := 0
		for _, d := range found {
			if d.GPU() {
				n++
			}
		}
		gpus <- fmt.Sprint(n, err)
	})
	until := func(want string) {
		t.Helper()
		for got := ""; got != want; {
			select {
			case got = <-gpus:
			case <-ctx.Done():
				t.Fatalf("Watch does not report %s GPUs", want)
			}
		}
	}
	bus := t.TempDir()
	device := filepath.Join(bus, "0000:3b:00.0")
	assert.NilError(t, os.Mkdir(device, 0o755))
	for name, text := range map[string]string{"vendor": "0x10de", "device": "0x2330", "class": "0x030200"} {
		assert.NilError(t, os.WriteFile(filepath.Join(device, name), []byte(text+"\n"), 0o600))
	}
	until("0 <nil>")
	assert.NilError(t, unix.Mount(bus, "/sys/bus/pci/devices", "", unix.MS_BIND, ""))
	until("1 <nil>")
	assert.NilError(t, unix.Unmount("/sys/bus/pci/devices", unix.MNT_DETACH))
	until("0 <nil>")
}
