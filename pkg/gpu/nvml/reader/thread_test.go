package reader_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/pkg/gpu"
)

// eventThreads returns how many threads of this process wait for events of NVML.
func eventThreads(t *testing.T) (n int) {
	t.Helper()
	names, err := filepath.Glob("/proc/self/task/*/comm")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if comm, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(comm)) == "nvml-events" {
			n++
		}
	}
	return n
}

// A watch waits on one thread that the Go runtime does not know, delivers what comes there,
// and ends it.
func TestAWatchWaitsOnAThreadOfItsOwn(t *testing.T) {
	s := newSim(t, "--gpus=2")
	src := s.source(nil)
	defer closeSource(t, src)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		begun, xids, ended := make(chan struct{}, 1), make(chan uint64, 1), make(chan error, 1)
		go func() {
			ended <- src.Watch(ctx, func(e gpu.Event) {
				if e.Kind == gpu.EventXID {
					xids <- e.XID
					return
				}
				begun <- struct{}{}
			})
		}()
		<-begun
		s.run("xid", "1", "48")
		if got := <-xids; got != 48 {
			t.Errorf("XID %d, want 48", got)
		}
		if n := eventThreads(t); n != 1 {
			t.Errorf("%d threads wait for events, want 1", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := eventThreads(t); n != 0 {
			t.Errorf("%d threads wait for events after the watch, want none", n)
		}
	}
}
