package contract_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/contract"
)

// inTime runs f and fails the test if it does not return.
func inTime(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s does not return", what)
	}
}

// lock takes a lock, as whoever may read a path can, until the test ends.
func lock(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { must(t, f.Close()) })
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	return f
}

func TestALockedFolderIsAnErrorInTime(t *testing.T) {
	d := newDir(t)
	held, err := d.Hold(contract.PluginReady, contract.Record{Writer: "device-plugin"})
	must(t, err)
	lock(t, filepath.Join(d.Root, "validations"))
	for name, write := range map[string]func() error{
		"Hold":    func() error { _, err := d.Hold(contract.CUDAReady, contract.Record{Writer: "validation"}); return err },
		"Write":   func() error { return d.Write(contract.DriverReady, contract.Record{Writer: "driver-loader"}) },
		"Release": held.Release,
	} {
		inTime(t, name, func() {
			if err := write(); err == nil || !strings.Contains(err.Error(), "lslocks") || !strings.Contains(err.Error(), "validations") {
				t.Errorf("%s in a locked folder = %v, want what is locked and how to find out by whom", name, err)
			}
		})
	}
	if got := d.Read(contract.PluginReady); got.State != contract.WriterDead {
		t.Errorf("a fact that was released in a locked folder is %s, want %s", got.State, contract.WriterDead)
	}
}

func TestAFIFOInAFilesPlaceIsAnErrorInTime(t *testing.T) {
	d := newDir(t)
	l := d.NVML()
	for _, path := range []string{d.Path(contract.DriverReady), l.Path(), l.Path() + ".claim"} {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, unix.Mkfifo(path, 0o644))
	}
	inTime(t, "Read", func() {
		if got := d.Read(contract.DriverReady); got.State != contract.Unreadable || !strings.Contains(got.Reason, "remove it") {
			t.Errorf("Read() = %+v, want it unreadable", got)
		}
	})
	inTime(t, "Claimed", func() {
		if c, ok := l.Claimed(); ok {
			t.Errorf("Claimed() = %+v, want none", c)
		}
	})
	inTime(t, "Share", func() {
		if _, err := l.Share(); err == nil || !strings.Contains(err.Error(), l.Path()) || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("Share() = %v, want the path and what to do", err)
		}
	})
}

func TestALeaseLockedWithoutClaimSaysSo(t *testing.T) {
	d := newDir(t)
	s, err := d.NVML().Share()
	must(t, err)
	must(t, s.Release())
	lock(t, d.NVML().Path())
	_, err = d.NVML().Share()
	if !errors.Is(err, contract.ErrClaimed) || !strings.Contains(err.Error(), "lslocks") || strings.Contains(err.Error(), "left)") {
		t.Errorf("Share() = %v, want ErrClaimed by a process that is not known", err)
	}
}
