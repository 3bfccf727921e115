package nvml_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

func TestNVMLStaysInitializedBetweenUses(t *testing.T) {
	f := &fake{}
	s, _ := f.session(t, nil)
	for range 3 {
		if got, err := name(t.Context(), s); got != "NVIDIA L4" || err != nil {
			t.Fatalf("name = %q, %v", got, err)
		}
	}
	if f.inits.Load() != 1 || !f.running() || s.Idle() {
		t.Errorf("initialized %d times, shut down %d times, want once and not", f.inits.Load(), f.shutdowns.Load())
	}
	if err := s.Close(); err != nil || f.running() || !s.Idle() {
		t.Errorf("Close() = %v, NVML runs: %v", err, f.running())
	}
	if _, err := name(t.Context(), s); err != nil || f.inits.Load() != 2 {
		t.Errorf("a use after Close: %v, initialized %d times, want 2", err, f.inits.Load())
	}
}

func TestErrorsKeepSymbolReturnAndGPU(t *testing.T) {
	f := &fake{name: gonvml.ERROR_GPU_IS_LOST}
	s, _ := f.session(t, nil)
	_, err := name(t.Context(), s)
	call, ok := errors.AsType[*nvml.Error](err)
	if !ok || call.Symbol != "nvmlDeviceGetName" || call.GPU != 0 || call.Return != gonvml.ERROR_GPU_IS_LOST || call.Missing {
		t.Fatalf("error = %+v, want nvmlDeviceGetName of GPU 0 with GPU_IS_LOST", err)
	}
	if want := "nvmlDeviceGetName of GPU 0 in NVML's list: "; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error = %q, want %q at its start", err, want)
	}
	if nvml.DriverGone(err) || !f.running() {
		t.Error("one GPU that is lost ended the use of NVML for all")
	}
}

// A call of a symbol that the library lacks kills the process.
func TestASymbolThatIsMissingIsNotCalled(t *testing.T) {
	f := &fake{lacks: []string{"nvmlDeviceGetMinorNumber"}}
	s, _ := f.session(t, nil)
	_, err := nvml.Use(t.Context(), s, func(_ context.Context, span *nvml.Span) (int, error) {
		d, err := span.Library().Device(0)
		if err != nil {
			return 0, err
		}
		return d.MinorNumber() // the fake would panic
	})
	if !nvml.Missing(err) || nvml.Code(err) != gonvml.ERROR_FUNCTION_NOT_FOUND || nvml.DriverGone(err) {
		t.Errorf("error = %v, want that nvmlDeviceGetMinorNumber is missing", err)
	}
}

func TestADriverThatGoesEndsAllUses(t *testing.T) {
	f := &fake{}
	s, _ := f.session(t, nil)
	ended := hold(t, s)
	f.name = gonvml.ERROR_DRIVER_NOT_LOADED
	if _, err := name(t.Context(), s); !errors.Is(err, gpu.ErrNoDriver) {
		t.Errorf("error = %v, want %v", err, gpu.ErrNoDriver)
	}
	assert.ErrorIs(t, <-ended, gpu.ErrNoDriver)
	if f.running() {
		t.Error("NVML runs without a driver")
	}
}

func TestASpanIsStaleOnceAGPUHasCome(t *testing.T) {
	f := &fake{}
	s, proc := f.session(t, nil)
	use := func(want bool) {
		t.Helper()
		_, err := nvml.Use(t.Context(), s, func(_ context.Context, span *nvml.Span) (struct{}, error) {
			if got := span.Stale(); got != want {
				t.Errorf("Stale() = %v, want %v", got, want)
			}
			if want {
				span.Retire(gpu.ErrClosed)
			}
			return struct{}{}, nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	use(false)
	plug(t, proc, "0000:0f:00.0")
	use(true)
	use(false)
	if f.inits.Load() != 2 {
		t.Errorf("initialized %d times, want 2", f.inits.Load())
	}
}

// The three ways to use NVML: with a share of the lease, under a grant of it, and
// without a lease.
func TestTheLeaseIsHeldWhileNVMLIsUsed(t *testing.T) {
	lease := contract.Dir{Root: t.TempDir()}.NVML()
	f := &fake{}
	s, _ := f.session(t, lease)
	ended := hold(t, s)
	grant, err := lease.Claim(t.Context(), "test", "divide a GPU", 10*time.Second)
	assert.NilError(t, err)
	assert.ErrorIs(t, <-ended, gpu.ErrClosed)
	if f.running() {
		t.Error("NVML is initialized while another agent owns the lease")
	}
	if _, err := name(t.Context(), s); !errors.Is(err, contract.ErrClaimed) {
		t.Errorf("Use() while the lease is claimed = %v, want %v", err, contract.ErrClaimed)
	}
	got, err := nvml.UseGranted(t.Context(), s, grant, func(ctx context.Context, span *nvml.Span) (string, error) {
		if _, err := name(ctx, s); !errors.Is(err, contract.ErrClaimed) {
			t.Errorf("Use() beside UseGranted() = %v, want %v", err, contract.ErrClaimed)
		}
		return nameIn(ctx, span)
	})
	if got != "NVIDIA L4" || err != nil || f.running() {
		t.Errorf("UseGranted() = %q, %v, NVML is left running: %v", got, err, f.running())
	}
	assert.NilError(t, grant.Release())
	if _, err := name(t.Context(), s); err != nil {
		t.Errorf("Use() after the lease was released: %v", err)
	}
}

// That another program claims the lease is news. A claim of this one is not: who claims it logs why.
// released releases a grant when it has the first log message.
type released struct{ grant *contract.Grant }

func (r *released) Write(p []byte) (int, error) {
	err := r.grant.Release()
	r.grant = nil
	return len(p), err
}

func TestASessionWaitsForTheClaimOfAnother(t *testing.T) {
	for call, use := range map[string]func(context.Context, *nvml.Session) error{
		"Use": func(ctx context.Context, s *nvml.Session) error {
			_, err := name(ctx, s)
			return err
		},
		"Claim": func(ctx context.Context, s *nvml.Session) error {
			grant, err := s.Claim(ctx, "test", "divide a GPU", time.Minute)
			return errors.Join(err, grant.Release())
		},
	} {
		claimed := func(t *testing.T, limit time.Duration) (*nvml.Session, *released) {
			t.Helper()
			lease := contract.Dir{Root: t.TempDir()}.NVML()
			grant, err := lease.Claim(t.Context(), "other", "divide a GPU", time.Minute)
			assert.NilError(t, err)
			t.Cleanup(func() { _ = grant.Release() })
			r := &released{grant}
			s, _ := (&fake{leaseWait: limit, log: slog.New(slog.NewTextHandler(r, nil))}).session(t, lease)
			return s, r
		}
		t.Run(call+" until the claim ends", func(t *testing.T) {
			s, _ := claimed(t, time.Minute)
			assert.NilError(t, use(t.Context(), s))
		})
		t.Run(call+" until the limit", func(t *testing.T) {
			s, r := claimed(t, time.Nanosecond)
			r.grant = nil // the claim stays
			if err := use(t.Context(), s); !errors.Is(err, contract.ErrClaimed) || !strings.Contains(err.Error(), "waited 1ns for") {
				t.Errorf("error = %v, want %v and the limit", err, contract.ErrClaimed)
			}
		})
		t.Run(call+" until its caller gives up", func(t *testing.T) {
			s, r := claimed(t, time.Minute)
			r.grant = nil
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			assert.ErrorIs(t, use(ctx, s), context.Canceled)
		})
	}
}

func TestOnlyClaimsOfOthersAreNews(t *testing.T) {
	lease := contract.Dir{Root: t.TempDir()}.NVML()
	for name, c := range map[string]struct {
		claim func(*nvml.Session) (*contract.Grant, error)
		news  bool
	}{
		"its own": {func(s *nvml.Session) (*contract.Grant, error) {
			return s.Claim(t.Context(), "test", "divide a GPU", 10*time.Second)
		}, false},
		"of another": {func(*nvml.Session) (*contract.Grant, error) {
			return lease.Claim(t.Context(), "test", "divide a GPU", 10*time.Second)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			f := &fake{log: slog.New(slog.NewTextHandler(&log, nil))}
			s, _ := f.session(t, lease)
			ended := hold(t, s)
			grant, err := c.claim(s)
			assert.NilError(t, err)
			if err := <-ended; !errors.Is(err, gpu.ErrClosed) || f.running() {
				t.Errorf("the use ended with %v, NVML runs: %t", err, f.running())
			}
			assert.NilError(t, errors.Join(grant.Release(), s.Close()))
			if news := strings.Contains(log.String(), "nvml lease claimed"); news != c.news {
				t.Errorf("the log is %q", log.String())
			}
		})
	}
	if grant, err := (&nvml.Session{}).Claim(t.Context(), "test", "no lease", time.Second); grant != nil || err != nil {
		t.Errorf("Claim() without a lease = %v, %v", grant, err)
	}
}

func TestTheUseOfNVMLWithoutARunRootNeedsNoLease(t *testing.T) {
	f := &fake{}
	s, _ := f.session(t, contract.Dir{Root: t.TempDir() + "/none"}.NVML())
	if _, err := name(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// waiting begins a use that waits for an event for a minute.
func waiting(t *testing.T, s *nvml.Session, begun <-chan struct{}) (context.CancelFunc, <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := nvml.Use(ctx, s, func(_ context.Context, span *nvml.Span) (struct{}, error) {
			set, err := span.Library().NewEventSet()
			if err != nil {
				return struct{}{}, err
			}
			_, err = set.Wait(time.Minute)
			return struct{}{}, err
		})
		ended <- err
	}()
	<-begun
	return cancel, ended
}

func TestAWaitForAnEventIsInterrupted(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, s *nvml.Session, cancel func(), lease *contract.Lease){
		"by its caller": func(_ *testing.T, _ *nvml.Session, cancel func(), _ *contract.Lease) { cancel() },
		"by Close": func(t *testing.T, s *nvml.Session, _ func(), _ *contract.Lease) {
			assert.NilError(t, s.Close())
		},
		"by a claim of the lease": func(t *testing.T, _ *nvml.Session, _ func(), lease *contract.Lease) {
			grant, err := lease.Claim(t.Context(), "test", "reset a GPU", 20*time.Second)
			assert.NilError(t, err)
			assert.NilError(t, grant.Release())
		},
	} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{})
			f := &fake{wait: func(millis uint32) gonvml.Return {
				close(begun)
				// As nvmlEventSetWait does, it returns when a signal arrives.
				if _, err := unix.Poll(nil, int(millis)); !errors.Is(err, unix.EINTR) {
					t.Errorf("poll() = %v, want %v", err, unix.EINTR)
				}
				return gonvml.ERROR_TIMEOUT
			}}
			lease := contract.Dir{Root: t.TempDir()}.NVML()
			s, _ := f.session(t, lease)
			cancel, ended := waiting(t, s, begun)
			defer cancel()
			end(t, s, cancel, lease)
			select {
			case err := <-ended:
				if nvml.Code(err) != gonvml.ERROR_TIMEOUT {
					t.Errorf("the wait ended with %v, want a timeout", err)
				}
			case <-time.After(5 * time.Minute):
				t.Fatal("the wait was not interrupted")
			}
		})
	}
}

// A library that ignores signals keeps nobody from stopping.
func TestAWaitThatCannotBeInterruptedIsLeftBehind(t *testing.T) {
	begun, event := make(chan struct{}), make(chan struct{})
	f := &fake{wait: func(uint32) gonvml.Return {
		close(begun)
		<-event
		return gonvml.ERROR_TIMEOUT
	}}
	s, _ := f.session(t, nil)
	cancel, ended := waiting(t, s, begun)
	cancel()
	assert.ErrorIs(t, <-ended, context.Canceled)
	assert.NilError(t, s.Close())
	if !f.running() {
		t.Error("NVML was shut down under a call of it")
	}
	close(event)
	limit := time.After(5 * time.Minute)
	for f.running() {
		select {
		case <-limit:
			t.Fatal("NVML was not shut down after the wait")
		case <-time.After(time.Millisecond):
		}
	}
}
