// Package nvml gives a process access to NVML, NVIDIA's management library. A
// Session loads the library at the first use and keeps it initialized between uses.
// While NVML is initialized, the Session holds a share of the node's lease on NVML.
// It detects calls that hang. Each call goes through get or invoke, which check that the library
// has the symbol, record the call while it is in flight, and return an *Error if the call fails.
//
// To make another symbol available, add a method to symbols_*.go. Code that interprets the results
// belongs in a package below this one, such as nvml/reader. Only this package and the packages
// below it import go-nvml, which links C.
package nvml

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// Config locates the driver, and names the lease that a Session shares.
type Config struct {
	// LibraryPath is the path of libnvidia-ml.so.1. If empty, the Session searches DriverRoot, and
	// then lets the dynamic loader search.
	LibraryPath string
	// DriverRoot is the driver installation where the Session searches for the library. If nil,
	// it is the default of package driverroot.
	DriverRoot *driverroot.Root
	// Proc is the host's /proc.
	Proc driverproc.Root
	// Lease is shared while NVML is initialized. When another agent claims it, the
	// Session shuts NVML down. If nil, the Session shares no lease.
	Lease *contract.Lease
	// LeaseWait is how long Use and Claim wait while another program has claimed the lease. If it is
	// 0, they return contract.ErrClaimed at once.
	LeaseWait time.Duration
	// API replaces the library, for example with a fake. The Session then loads no
	// library.
	API gonvml.Interface
	// Now returns the current time for the detection of calls that hang. If nil, it is time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Session is the access of a process to NVML. It initializes NVML at the first
// Use, and keeps it initialized until Close, until the driver is gone, or until
// another agent claims the lease. It is safe for concurrent use.
type Session struct {
	cfg   Config
	calls *inFlight
	// claims is the owner of the claim that this process is about to make.
	claims atomic.Pointer[string]

	// mu guards the fields below, and fields of Span.
	mu sync.Mutex
	// lib is the loaded library. It stays loaded until the process ends.
	lib *library
	// cur is nil while NVML is not initialized for Use.
	cur *Span

	background sync.WaitGroup
}

// New returns a Session. It does not load the library.
func New(cfg Config) (*Session, error) {
	if cfg.DriverRoot == nil && cfg.API == nil {
		root, err := driverroot.New(driverroot.Config{ProcRoot: string(cfg.Proc)})
		if err != nil {
			return nil, err
		}
		cfg.DriverRoot = root
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Session{cfg: cfg, calls: &inFlight{now: cfg.Now}}
	if cfg.API != nil {
		s.lib = &library{path: "the API of the configuration", api: cfg.API, lookup: cfg.API.Extensions().LookupSymbol}
	}
	return s, nil
}

// Use calls f while NVML is initialized, and returns the results of f. The context of f ends with
// ctx. It also ends when the Session has to shut NVML down: after Close, when another agent claims
// the lease, or when the driver is gone. The cause of the context is the reason.
//
// NVML stays initialized after Use, so that a later Use that gets the same Span can use the same
// handles. If DriverGone is true for the error of f, the Span ends. A call of NVML cannot
// be interrupted: if a call does not return after ctx has ended, Use returns before f does, with an
// error that wraps gpu.ErrHangs.
func Use[T any](ctx context.Context, s *Session, f func(context.Context, *Span) (T, error)) (T, error) {
	return runUse(ctx, s, s.enterFree, f)
}

// UseGranted is Use for the owner of a claimed lease (see Claim). It initializes NVML only for f
// and shuts it down before it returns, so that the owner can then release the grant. Until that
// release, Use returns contract.ErrClaimed in all processes, including this one.
func UseGranted[T any](ctx context.Context, s *Session, _ *contract.Grant, f func(context.Context, *Span) (T, error)) (T, error) {
	return runUse(ctx, s, s.enterAlone, f)
}

// enterFunc begins a use and returns its context. The caller ends the use with leave.
type enterFunc func(context.Context) (context.Context, *user, error)

func runUse[T any](ctx context.Context, s *Session, enter enterFunc, f func(context.Context, *Span) (T, error)) (T, error) {
	result, err := runInterruptible(s.calls, ctx.Done(), func() (T, error) {
		ctx, u, err := enter(ctx)
		if err != nil {
			var none T
			return none, err
		}
		defer s.leave(u)
		result, err := f(ctx, u.span)
		if DriverGone(err) {
			if !errors.Is(err, gpu.ErrNoDriver) {
				err = fmt.Errorf("%w: %w", gpu.ErrNoDriver, err)
			}
			s.retire(u.span, err)
		}
		return result, err
	})
	if errors.Is(err, errStillWaiting) {
		err = ctx.Err()
	}
	return result, err
}

// Health returns an error that wraps gpu.ErrHangs while a call of NVML has not
// answered for 30 s. It never blocks.
func (s *Session) Health() error { return s.calls.hangs(hangLimit) }

// HangsIn returns the minimum time until Health can return an error: the time until the oldest call
// in flight has taken 30 s, or 30 s if no call is in flight. It is 0 or less while Health returns
// an error. It never blocks.
func (s *Session) HangsIn() time.Duration { return s.calls.hangsIn(hangLimit) }

// Idle reports whether NVML is shut down.
func (s *Session) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur == nil
}

// Close ends all uses, shuts NVML down and releases the share of the lease. It returns an error
// that wraps gpu.ErrHangs if a call of NVML does not return. If a wait for an event cannot be
// interrupted, Close returns nil without waiting for it, so that the process can exit. NVML is shut
// down when the wait ends.
func (s *Session) Close() error {
	if err := s.calls.hangs(giveUp); err != nil {
		return fmt.Errorf("close NVML: %w", err)
	}
	end := make(chan struct{})
	close(end)
	_, err := runInterruptible(s.calls, end, func() (struct{}, error) { return struct{}{}, s.close() })
	if errors.Is(err, errStillWaiting) {
		return nil
	}
	return err
}

func (s *Session) close() error {
	s.mu.Lock()
	span := s.cur
	s.mu.Unlock()
	if span == nil {
		return nil
	}
	s.retire(span, gpu.ErrClosed)
	<-span.down
	s.background.Wait()
	return span.err
}
