package kernellog_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/dcgm-exporter/internal/kernellog"
	"outrigger.dev/pkg/agent/agenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	for line, want := range map[string]kernellog.XID{
		"4,1234,5678901,-;NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.": {BusID: "0000:17:00.0", Code: 79},
		"NVRM: Xid (PCI:0000:C7:00.0): 119, Timeout after 6s":                                                           {BusID: "0000:c7:00.0", Code: 119},
		"NVRM: Xid (PCI:00000002:c7:00): 31":                                                                            {BusID: "00000002:c7:00.0", Code: 31},
	} {
		if got, ok := kernellog.Parse(line); !ok || got != want {
			t.Errorf("%q: %+v, %t", line, got, ok)
		}
	}
	for _, line := range []string{
		"", "NVRM: loading NVIDIA UNIX driver", "NVRM: Xid (PCI:0000:17:00: 79", "NVRM: Xid (PCI:../../etc): 79", "NVRM: Xid (PCI:0000:17:00): ,",
		"NVRM: Xid (PCI:0000:17:00): 99999999999999999999", "NVRM: Xid (PCI:): 79", "NVRM: Xid (PCI:0000000000000000000000:17:00): 79",
	} {
		if got, ok := kernellog.Parse(line); ok {
			t.Errorf("%q: %+v", line, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("NVRM: Xid (PCI:0000:17:00): 79, x")
	f.Fuzz(func(t *testing.T, line string) {
		if x, ok := kernellog.Parse(line); ok && (len(x.BusID) < 12 || len(x.BusID) > 16) {
			t.Errorf("%+v", x)
		}
	})
}

// watch follows a log, and returns what it delivers.
func watch(t *testing.T) (log *os.File, seen chan kernellog.XID) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kmsg")
	assert.NilError(t, syscall.Mkfifo(path, 0o600))
	// For reading too, so that it opens before there is a reader.
	log, err := os.OpenFile(path, os.O_RDWR, 0)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	seen = make(chan kernellog.XID)
	agenttest.Run(t, func(ctx context.Context) error {
		return kernellog.Watch(ctx, path, func(x kernellog.XID) { seen <- x })
	})
	return log, seen
}

// Only errors that NVML does not report are delivered.
func TestWatch(t *testing.T) {
	log, seen := watch(t)
	if _, err := log.WriteString("6,1,1,-;usb 1-1: new device\n4,2,2,-;NVRM: Xid (PCI:0000:17:00): 31, pid=7\n" +
		"4,3,3,-;NVRM: Xid (PCI:0000:17:00): 79, pid=7\n4,4,4,-;NVRM: Xid (PCI:0000:65:00): 120, x\n"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []kernellog.XID{{BusID: "0000:17:00.0", Code: 79}, {BusID: "0000:65:00.0", Code: 120}} {
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		case <-t.Context().Done():
			t.Fatal("nothing is delivered")
		}
	}
}

func TestALogThatCannotBeRead(t *testing.T) {
	if err := kernellog.Watch(t.Context(), filepath.Join(t.TempDir(), "none"), func(kernellog.XID) {}); err == nil {
		t.Error("no error")
	}
	assert.ErrorContains(t, kernellog.Watch(t.Context(), "/dev/zero", func(kernellog.XID) {}), "not a kernel log")
}
