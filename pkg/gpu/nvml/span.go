package nvml

import (
	"context"
	"errors"
	"fmt"
	"slices"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
)

// Span is a period of time while NVML is initialized. Handles and GPU indices are valid
// only within their Span.
type Span struct {
	session *Session
	lib     *library
	// present holds the bus IDs of the GPUs that the kernel driver had when NVML was initialized.
	// NVML lists these GPUs until it is initialized again.
	present []string
	share   *contract.Share
	// unwatch ends the watch for claims of the lease.
	unwatch context.CancelFunc

	// users and retired are guarded by Session.mu.
	users   map[*user]struct{}
	retired bool
	// err is final after down is closed.
	err  error
	down chan struct{}
}

// user is one Use of a span. cancel ends the context of its function.
type user struct {
	span   *Span
	cancel context.CancelCauseFunc
}

// Present returns the bus IDs of the GPUs that the kernel driver had when NVML
// was initialized.
func (n *Span) Present() []string { return n.present }

// Proc returns the host's /proc, where the kernel driver shows values that NVML might not report.
func (n *Span) Proc() driverproc.Root { return n.session.cfg.Proc }

// Stale reports whether GPUs were added or removed since NVML was initialized. NVML
// lists the new set of GPUs only after it is initialized again.
func (n *Span) Stale() bool { return !slices.Equal(n.present, n.session.cfg.Proc.BusIDs()) }

// Retire ends the Span. It ends the contexts of all uses with the cause. NVML is shut down after
// the last use has returned. The next Use initializes it again.
func (n *Span) Retire(cause error) { n.session.retire(n, cause) }

// enterFree is enter after the claims of other programs have ended.
func (s *Session) enterFree(ctx context.Context) (use context.Context, u *user, err error) {
	err = s.await(ctx, func() error {
		use, u, err = s.enter(ctx)
		return err
	})
	return use, u, err
}

// enter returns a use of the current span. It begins a span if there is none. The caller ends the
// use with leave.
func (s *Session) enter(ctx context.Context) (context.Context, *user, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == nil {
		share, err := s.share()
		if err != nil {
			return nil, nil, fmt.Errorf("initialize NVML: %w", err)
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
		return nil, nil, fmt.Errorf("use NVML: %w, but some of its uses have not ended", gpu.ErrClosed)
	}
	use, u := s.cur.enter(ctx)
	return use, u, nil
}

// enterAlone returns a use of a new span that ends with the use.
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

// begin initializes NVML. The caller holds s.mu.
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

// enter adds a use to the span. The caller holds Session.mu.
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

// shutdown shuts NVML down if the span is retired and has no uses. The caller holds s.mu.
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

// Library returns the handle for the calls that do not concern a single GPU.
func (n *Span) Library() Library {
	return Library{handle[gonvml.Interface]{span: n, raw: n.lib.api, gpu: noGPU}}
}
