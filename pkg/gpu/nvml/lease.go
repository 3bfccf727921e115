package nvml

import (
	"context"
	"errors"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

// lookForClaim is how often a lease is looked at that cannot be watched.
const lookForClaim = time.Second

// share takes part in the lease. Where there is no run root nobody can claim it.
func (s *Source) share() (*contract.Share, error) {
	if s.cfg.Lease == nil {
		return nil, nil
	}
	share, err := s.cfg.Lease.Share()
	if errors.Is(err, contract.ErrNoRunRoot) {
		return nil, nil
	}
	return share, err
}

// yield retires the session when the lease is claimed.
func (s *Source) yield(ctx context.Context, sess *session) {
	claim, err := s.cfg.Lease.WaitClaimed(ctx)
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("nvml lease is not watched, looking from time to time", "every", lookForClaim, "err", err)
		claim, err = s.pollClaim(ctx)
	}
	if err != nil {
		return
	}
	s.cfg.Log.Info("nvml is given back", "claim", claim.String())
	s.retire(sess, gpu.ErrClosed)
}

// pollClaim is WaitClaimed for a node that has no inotify instances left.
func (s *Source) pollClaim(ctx context.Context) (contract.Claim, error) {
	tick := time.NewTicker(lookForClaim)
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
