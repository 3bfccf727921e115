package nvml

import (
	"context"
	"errors"
	"fmt"
	"slices"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

// Span is one span of time in which NVML is initialised. Handles, and the index
// of a GPU, mean something within their span alone.
type Span struct {
	session *Session
	lib     *library
	// present holds the bus IDs of the GPUs that the kernel had when NVML was
	// initialised: NVML shows these until it is initialised again.
	present []string
	share   *contract.Share
	// unwatch ends the watch for claims of the lease.
	unwatch context.CancelFunc

	// users and retired are guarded by Session.mu.
	users   map[*user]struct{}
	retired bool
	// err is final once down is closed.
	err  error
	down chan struct{}
}

// user is one Use of a span. Cancel ends the context of its function.
type user struct {
	span   *Span
	cancel context.CancelCauseFunc
}

// Present returns the bus IDs of the GPUs that the kernel driver had when NVML
// was initialised.
func (n *Span) Present() []string { return n.present }

// Stale reports whether GPUs have come or gone since NVML was initialised, which
// NVML shows after it was initialised again.
func (n *Span) Stale() bool { return !slices.Equal(n.present, n.session.cfg.Proc.BusIDs()) }

// Retire ends the span: the contexts of all uses end with the cause, and when the
// last one has returned NVML is shut down. The next Use initialises it again.
func (n *Span) Retire(cause error) { n.session.retire(n, cause) }

// enter returns a use of the current span, which it begins if there is none. The
// caller leaves it.
func (s *Session) enter(ctx context.Context) (context.Context, *user, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == nil {
		share, err := s.share()
		if err != nil {
			return nil, nil, fmt.Errorf("initialise NVML: %w", err)
		}
		span, err := s.begin(share)
		if err != nil {
			return nil, nil, errors.Join(err, share.Release())
		}
		s.cur = span
		if share != nil {
			// The span outlives the use that begins it.
			var watch context.Context
			watch, span.unwatch = context.WithCancel(context.WithoutCancel(ctx))
			s.background.Go(func() { s.yield(watch, span) })
		}
	}
	if s.cur.retired {
		return nil, nil, fmt.Errorf("use NVML: %w, and not all uses of it have ended", gpu.ErrClosed)
	}
	use, u := s.cur.enter(ctx)
	return use, u, nil
}

// enterAlone returns a use of a span that ends with it.
func (s *Session) enterAlone(ctx context.Context) (context.Context, *user, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	span, err := s.begin(nil)
	if err != nil {
		return nil, nil, err
	}
	span.retired = true
	use, u := span.enter(ctx)
	return use, u, nil
}

// begin initialises NVML. It needs the lock.
func (s *Session) begin(share *contract.Share) (*Span, error) {
	lib, err := s.library()
	if err != nil {
		return nil, err
	}
	span := &Span{
		session: s, lib: lib, present: s.cfg.Proc.BusIDs(), share: share,
		unwatch: func() {}, users: map[*user]struct{}{}, down: make(chan struct{}),
	}
	if err := span.Library().init(); err != nil {
		return nil, s.initError(lib, err)
	}
	return span, nil
}

// enter needs the lock.
func (n *Span) enter(ctx context.Context) (context.Context, *user) {
	ctx, cancel := context.WithCancelCause(ctx)
	u := &user{span: n, cancel: cancel}
	n.users[u] = struct{}{}
	return ctx, u
}

// leave ends a use. The last use of a retired span shuts NVML down.
func (s *Session) leave(u *user) {
	u.cancel(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(u.span.users, u)
	s.shutdown(u.span)
}

func (s *Session) retire(span *Span, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	span.retired = true
	for u := range span.users {
		u.cancel(cause)
	}
	s.shutdown(span)
	if !span.ended() {
		s.background.Go(func() { s.calls.interrupt(span.down) })
	}
}

// shutdown ends a retired span that nobody uses. It needs the lock.
func (s *Session) shutdown(span *Span) {
	if span.ended() || !span.retired || len(span.users) > 0 {
		return
	}
	if s.cur == span {
		s.cur = nil
	}
	span.unwatch()
	if err := span.Library().shutdown(); err != nil && !DriverGone(err) {
		span.err = fmt.Errorf("shut NVML down: %w", err)
	}
	span.err = errors.Join(span.err, span.share.Release())
	if span.err != nil {
		s.cfg.Log.Warn("nvml did not shut down cleanly", "err", span.err)
	}
	close(span.down)
}

// ended reports whether NVML was shut down.
func (n *Span) ended() bool {
	select {
	case <-n.down:
		return true
	default:
		return false
	}
}

// Library returns the handle of calls that concern no single GPU.
func (n *Span) Library() Library {
	return Library{handle[gonvml.Interface]{span: n, raw: n.lib.api, gpu: noGPU}}
}
