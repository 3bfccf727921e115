package nvml

import (
	"context"
	"errors"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

// claimPoll is the time between two reads of a lease that cannot be watched.
const claimPoll = time.Second

// share takes a share of the lease. Without a run root, it returns nil: no agent can
// claim the lease there.
func (s *Session) share() (*contract.Share, error) {
	if s.cfg.Lease == nil {
		return nil, nil
	}
	share, err := s.cfg.Lease.Share()
	if errors.Is(err, contract.ErrNoRunRoot) {
		return nil, nil
	}
	return share, err
}

// yield retires the span when the lease is claimed.
func (s *Session) yield(ctx context.Context, span *Span) {
	claim, err := s.cfg.Lease.WaitClaimed(ctx)
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("cannot watch the nvml lease, polling", "every", claimPoll, "err", err)
		claim, err = s.pollClaim(ctx)
	}
	if err != nil {
		return
	}
	s.cfg.Log.Info("nvml lease claimed, shutting nvml down", "claim", claim.String())
	s.retire(span, gpu.ErrClosed)
}

// pollClaim is WaitClaimed for a node that has no inotify instances left: another
// agent must be able to claim NVML there too.
func (s *Session) pollClaim(ctx context.Context) (contract.Claim, error) {
	tick := time.NewTicker(claimPoll)
	defer tick.Stop()
	for {
		if claim, ok := s.cfg.Lease.Claimed(); ok {
			return claim, nil
		}
		select {
		case <-ctx.Done():
			return contract.Claim{}, ctx.Err()
		case <-tick.C:
		}
	}
}
