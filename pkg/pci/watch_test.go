package pci_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/pci"
)

// patience bounds waits for what must happen; it is not a delay.
const patience = 5 * time.Minute

// scans watches a tree, and sends what Scan sees at each change.
func scans(t *testing.T, sys string) <-chan []pci.Device {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := make(chan []pci.Device), make(chan struct{})
	go func() {
		defer close(ended)
		pci.Watch(ctx, sys, slog.New(slog.NewTextHandler(t.Output(), nil)), func() {
			devices, err := pci.Scan(sys)
			if err != nil {
				t.Errorf("Scan() = %v", err)
			}
			select {
			case out <- devices:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("Watch does not end with its context")
		}
	})
	return out
}

// until waits for devices, each as its bus ID and driver.
func until(t *testing.T, seen <-chan []pci.Device, want ...string) {
	t.Helper()
	var got []string
	for deadline := time.After(patience); ; {
		select {
		case devices := <-seen:
			got = nil
			for _, d := range devices {
				got = append(got, d.BusID+" "+d.Driver)
			}
			if slices.Equal(got, want) {
				return
			}
		case <-deadline:
			t.Fatalf("last seen: %q, want %q", got, want)
		}
	}
}

func TestWatchTree(t *testing.T) {
	sys := t.TempDir()
	devices := filepath.Join(sys, "bus/pci/devices")
	assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Dir(devices)), 0o755))
	seen := scans(t, sys)
	until(t, seen) // a machine without PCI
	put(t, sys, "0000:17:00.0", gpuFiles(nil))
	until(t, seen, "0000:17:00.0 ")
	put(t, sys, "0000:2a:00.0", gpuFiles(nil))
	until(t, seen, "0000:17:00.0 ", "0000:2a:00.0 ")
	assert.NilError(t, os.Symlink("../../drivers/vfio-pci", filepath.Join(devices, "0000:2a:00.0/driver")))
	until(t, seen, "0000:17:00.0 ", "0000:2a:00.0 vfio-pci")
	assert.NilError(t, os.RemoveAll(filepath.Join(devices, "0000:17:00.0")))
	until(t, seen, "0000:2a:00.0 vfio-pci")
	assert.NilError(t, os.Remove(filepath.Join(devices, "0000:2a:00.0/driver")))
	until(t, seen, "0000:2a:00.0 ")
}

func TestWatchSimulatedNode(t *testing.T) {
	n := simtest.New(t, "--gpus=1", "--model=l4")
	sys := filepath.Join(n.Root, "sys")
	seen := scans(t, sys)
	first := (<-seen)[0].BusID
	n.Run("plug", "--model=l4")
	devices, err := pci.Scan(sys)
	if err != nil || len(devices) != 2 {
		t.Fatalf("Scan() = %v, %v, want two GPUs", devices, err)
	}
	second := devices[1].BusID
	until(t, seen, first+" nvidia", second+" nvidia")
	n.Run("unplug", second)
	until(t, seen, first+" nvidia")
	n.Run("set", "driver=off")
	until(t, seen, first+" ")
	n.Run("set", "driver=on")
	until(t, seen, first+" nvidia")
}
