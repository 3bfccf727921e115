// Package nvml is the way to NVIDIA's management library. A Session loads the
// library at the first use, keeps it initialised between uses, shares the node's
// lease on NVML while it does, and knows of calls that hang. Each call goes
// through get or do, which check that the library has the symbol, note the call
// while it is in flight, and return an Error.
//
// To make a new symbol available, add one line to symbols_*.go. What is made of
// the calls belongs into a package of its own below this one, as in nvml/reader:
// only these packages import go-nvml, and with it C.
package nvml

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// Config says where the driver is, and which lease a Session shares.
type Config struct {
	// LibraryPath of libnvidia-ml.so.1. Default: found in DriverRoot, else
	// what the dynamic loader finds.
	LibraryPath string
	// DriverRoot in which the library is looked for.
	DriverRoot *driverroot.Root
	// Proc is the host's /proc.
	Proc driverproc.Root
	// Lease is shared while NVML is initialised. When another agent claims it,
	// the session shuts NVML down. Nil if there is no lease to share.
	Lease *contract.Lease
	// API replaces the library, which is not loaded then: a fake or a mock.
	API gonvml.Interface
	// Now is the clock by which calls that hang are known. Default time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Session is the access of a process to NVML. It initialises NVML at the first
// Use, and keeps it initialised until Close, until the driver goes, or until
// another agent claims the lease. It is safe for concurrent use.
type Session struct {
	cfg   Config
	calls *inFlight

	// mu guards the fields below, and the fields of Span that say so.
	mu sync.Mutex
	// lib is the library that is loaded; it stays for the life of the process.
	lib *library
	// cur is nil while NVML is not initialised for Use.
	cur *Span

	background sync.WaitGroup
}

// New returns a session that does nothing until it is used.
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

// Use runs f while NVML is initialised, and returns what f returns. The context
// of f ends with ctx, and when the session has to give NVML up: after Close, when
// the lease is claimed, or when the driver goes; its cause says why.
//
// NVML stays initialised afterwards, so that handles of one span may be used by
// the next Use that gets the same Span. An error of f by which DriverGone holds
// ends the span. A call of NVML cannot be interrupted: if one does not return
// after ctx has ended, Use returns without f, and an error that wraps gpu.ErrHangs.
func Use[T any](ctx context.Context, s *Session, f func(context.Context, *Span) (T, error)) (T, error) {
	return run(ctx, s, s.enter, f)
}

// UseGranted is Use for the owner of a claimed lease. NVML is initialised for f
// alone, and shut down before UseGranted returns, so that the owner can release
// the grant after it. Others who use the session meanwhile get
// contract.ErrClaimed, as those of other processes do.
func UseGranted[T any](ctx context.Context, s *Session, _ *contract.Grant, f func(context.Context, *Span) (T, error)) (T, error) {
	return run(ctx, s, s.enterAlone, f)
}

// enterFunc begins a use, which leave ends, and returns its context.
type enterFunc func(context.Context) (context.Context, *user, error)

func run[T any](ctx context.Context, s *Session, enter enterFunc, f func(context.Context, *Span) (T, error)) (T, error) {
	result, err := leash(s.calls, ctx.Done(), func() (T, error) {
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
	if errors.Is(err, errLeft) {
		err = ctx.Err()
	}
	return result, err
}

// Health returns an error that wraps gpu.ErrHangs while a call of NVML has not
// answered for 30 s. It never blocks.
func (s *Session) Health() error { return s.calls.hangs(hangLimit) }

// HangsIn returns how long Health returns nil at least, as far as the calls in
// flight tell: about 30 s while NVML answers. It never blocks.
func (s *Session) HangsIn() time.Duration { return s.calls.hangsIn(hangLimit) }

// Idle reports whether NVML is shut down.
func (s *Session) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur == nil
}

// Close ends the uses under way, shuts NVML down and gives the lease back. It
// returns an error that wraps gpu.ErrHangs if a call of NVML does not return. A
// wait for an event that cannot be interrupted is left behind, and NVML is shut
// down when it ends: a process that exits need not wait for it.
func (s *Session) Close() error {
	if err := s.calls.hangs(giveUp); err != nil {
		return fmt.Errorf("close NVML: %w", err)
	}
	end := make(chan struct{})
	close(end)
	_, err := leash(s.calls, end, func() (struct{}, error) { return struct{}{}, s.close() })
	if errors.Is(err, errLeft) {
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
