package nvml

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

// share takes a share of the lease. Without a lease, it returns nil. Without a run root, it returns
// a share that takes effect when the run root appears.
func (s *Session) share() (*contract.Share, error) {
	if s.cfg.Lease == nil {
		return nil, nil
	}
	share, err := s.cfg.Lease.Share()
	if errors.Is(err, fs.ErrPermission) {
		s.cfg.Log.Warn("cannot share the nvml lease, using nvml without it: a mig change or a driver upgrade does not notice this process (run it as root)",
			"lease", s.cfg.Lease.Path(), "err", err)
	}
	if errors.Is(err, contract.ErrNoRunRoot) {
		return share, nil
	}
	return share, err
}

// Claim claims the lease for a program that uses this Session (see contract.Lease.Claim). The
// Session shuts NVML down, as for a claim of another program. Claim returns nil without a lease.
func (s *Session) Claim(ctx context.Context, owner, reason string, limit time.Duration) (*contract.Grant, error) {
	if s.cfg.Lease == nil {
		return nil, nil
	}
	s.claims.Store(&owner)
	defer s.claims.Store(nil)
	return s.cfg.Lease.Claim(ctx, owner, reason, limit)
}

// yield keeps the share of the span, and retires the span when the lease is claimed.
func (s *Session) yield(ctx context.Context, span *Span) {
	claim, err := span.share.Keep(ctx)
	if err != nil {
		return // the span has ended
	}
	level := slog.LevelInfo
	if own := s.claims.Load(); own != nil && *own == claim.Owner {
		level = slog.LevelDebug // who claims it says what for
	}
	s.cfg.Log.Log(ctx, level, "nvml lease claimed, shutting nvml down", "claim", claim.String())
	s.retire(span, gpu.ErrClosed)
}
