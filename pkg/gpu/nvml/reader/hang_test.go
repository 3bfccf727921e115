package reader_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/reader"
)

// clock is a clock that a test can put forward. It counts how often it was
// read.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
	reads int
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	return time.Now().Add(c.ahead)
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func (c *clock) taken() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

func (s *sim) sourceAt(c *clock) *reader.Reader {
	s.t.Helper()
	return s.reader(nvml.Config{LibraryPath: s.lib, Now: c.now})
}

// inFlight waits until NVML is in a call of one of the symbols.
func (s *sim) inFlight(symbols ...string) {
	s.t.Helper()
	agenttest.Poll(s.t, "a call of "+strings.Join(symbols, " or "), func() bool {
		calls := s.calls()
		return slices.ContainsFunc(symbols, func(symbol string) bool { return calls[symbol] > 0 })
	})
}

func TestACallThatHangsIsReportedUntilItAnswers(t *testing.T) {
	s := newSim(t, "--gpus=1")
	c := &clock{}
	src := s.sourceAt(c)
	if _, err := src.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.calls()
	s.run("set", "latency=3s")
	read := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, err := src.Snapshot(ctx)
		read <- err
	}()
	s.inFlight("nvmlDeviceGetMemoryInfo")
	if err := src.Health(); err != nil {
		t.Errorf("Health() of a call that has just begun = %v", err)
	}
	c.forward(time.Minute)
	err := src.Health()
	assert.ErrorIs(t, err, gpu.ErrHangs)
	for _, part := range []string{"nvmlDeviceGetMemoryInfo of GPU 0 in NVML's list has not answered for 1m", "dmesg", "NVRM", "drain the node", "reset the GPU or reboot"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("Health() = %q, want %q in it", err, part)
		}
	}
	s.run("set", "latency=0s")
	assert.NilError(t, <-read, "Snapshot() after the call has answered")
	if err := src.Health(); err != nil {
		t.Errorf("Health() after the call has answered = %v", err)
	}
	assert.NilError(t, src.Close())
}

// Nothing that is done to NVML may hang unseen: the clock is read once for
// each call.
func TestEveryCallIsTimed(t *testing.T) {
	s := newSim(t, "--gpus=4")
	s.calls()
	c := &clock{}
	src := s.sourceAt(c)
	ctx, cancel := context.WithCancel(t.Context())
	err := src.Watch(ctx, func(e gpu.Event) {
		if e.Kind == gpu.EventTopologyChanged {
			s.run("xid", "2", "48")
			return
		}
		cancel()
	})
	assert.NilError(t, err)
	if _, err := src.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	assert.NilError(t, src.Close())
	made := 0
	for symbol, n := range s.calls() {
		if symbol != "nvmlErrorString" { // answered from a table
			made += n
		}
	}
	if made == 0 || c.taken() != made {
		t.Errorf("%d of %d calls were timed", c.taken(), made)
	}
}

// What is asked to end does so, although NVML does not let go of it.
func TestEndsWhileACallHangs(t *testing.T) {
	for name, use := range map[string]func(context.Context, *reader.Reader) error{
		"a snapshot": func(ctx context.Context, src *reader.Reader) error {
			_, err := src.Snapshot(ctx)
			return err
		},
		"a watch": func(ctx context.Context, src *reader.Reader) error {
			return src.Watch(ctx, func(gpu.Event) {})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "--gpus=2")
			src := s.sourceAt(&clock{})
			s.run("set", "latency=4s")
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- use(ctx, src) }()
			s.inFlight("nvmlInit_v2")
			cancel()
			limit := time.After(1700 * time.Millisecond)
			for i, end := range []func() error{func() error { return <-ended }, src.Close} {
				got := make(chan error, 1)
				go func() { got <- end() }()
				select {
				case err := <-got:
					if !errors.Is(err, gpu.ErrHangs) || !strings.Contains(err.Error(), "nvmlInit_v2") {
						t.Errorf("end %d: got %v, want that nvmlInit_v2 hangs", i, err)
					}
				case <-limit:
					t.Fatalf("end %d took too long", i)
				}
			}
			s.run("set", "latency=0s")
			for err := gpu.ErrHangs; errors.Is(err, gpu.ErrHangs); {
				if err = src.Close(); err != nil && !errors.Is(err, gpu.ErrHangs) {
					t.Error(err)
				}
			}
		})
	}
}
