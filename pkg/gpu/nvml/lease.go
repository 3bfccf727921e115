package nvml

import (
	"context"
	"errors"
	"io/fs"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

// share takes a share of the lease. It returns nil without a lease. Without a run root, it
// returns a share that begins with the run root.
func (s *Session) share() (*contract.Share, error) {
	if s.cfg.Lease == nil {
		return nil, nil
	}
	share, err := s.cfg.Lease.Share()
	if errors.Is(err, fs.ErrPermission) {
		s.cfg.Log.Warn("cannot share the nvml lease, using nvml nevertheless: a mig change or a driver upgrade does not know of this process (run it as root)",
			"lease", s.cfg.Lease.Path(), "err", err)
	}
	if errors.Is(err, contract.ErrNoRunRoot) {
		return share, nil
	}
	return share, err
}

// yield keeps the share of the span, and retires the span when the lease is claimed.
func (s *Session) yield(ctx context.Context, span *Span) {
	claim, err := span.share.Keep(ctx)
	if err != nil {
		return // the span has ended
	}
	s.cfg.Log.Info("nvml lease claimed, shutting nvml down", "claim", claim.String())
	s.retire(span, gpu.ErrClosed)
}
