package nvml

import (
	"context"
	"errors"
	"fmt"
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
func (s *Session) Claim(ctx context.Context, owner, reason string, limit time.Duration) (grant *contract.Grant, err error) {
	if s.cfg.Lease == nil {
		return nil, nil
	}
	s.claims.Store(&owner)
	defer s.claims.Store(nil)
	err = s.await(ctx, func() error {
		grant, err = s.cfg.Lease.Claim(ctx, owner, reason, limit)
		return err
	})
	return grant, err
}

// await calls try, and calls it again while it returns contract.ErrClaimed and Config.LeaseWait has
// not passed. It returns the last error of try.
func (s *Session) await(ctx context.Context, try func() error) error {
	err := try()
	if s.cfg.LeaseWait == 0 || !errors.Is(err, contract.ErrClaimed) {
		return err
	}
	s.cfg.Log.Info("another program has exclusive use of nvml, waiting", "limit", s.cfg.LeaseWait, "err", err)
	wait, cancel := context.WithTimeout(ctx, s.cfg.LeaseWait)
	defer cancel()
	if err = s.cfg.Lease.Await(wait, try); !errors.Is(err, contract.ErrClaimed) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("waited %s for the exclusive use of NVML by another program to end: %w", s.cfg.LeaseWait, err)
}

// yield keeps the share of the span, and retires the span when the lease is claimed.
func (s *Session) yield(ctx context.Context, span *Span) {
	claim, err := span.share.Keep(ctx)
	if err != nil {
		return // the span has ended
	}
	level := slog.LevelInfo
	if own := s.claims.Load(); own != nil && *own == claim.Owner {
		level = slog.LevelDebug // the claimer logs the reason
	}
	s.cfg.Log.Log(ctx, level, "nvml lease claimed, shutting nvml down", "claim", claim.String())
	s.retire(span, gpu.ErrClosed)
}
