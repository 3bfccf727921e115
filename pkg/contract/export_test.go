package contract

import (
	"context"
	"time"
)

// HoldTurn has the turn while do runs.
func HoldTurn(d Dir, writer string, do func()) error {
	t, err := d.acquireTurn(writer, time.Now().Add(turnWait))
	if err != nil {
		return err
	}
	do()
	return t.end()
}

// Check has a Keeper compare what is published with what is desired.
func Check(k *Keeper) error { return k.put() }

// WaitClaimed waits until the lease is claimed, without a share of it.
func WaitClaimed(ctx context.Context, l *Lease) (Claim, error) {
	return (&Share{lease: l, released: true}).Keep(ctx)
}

// WithUsersWait returns the lease with another limit for the users of NVML.
func WithUsersWait(l *Lease, wait time.Duration) *Lease {
	out := *l
	out.usersWait = wait
	return &out
}
