package slots

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// maxTries is how often Settle tries again after another node was faster.
const maxTries = 10

// Settle gives back the slot of the node. failed is the driver with which its upgrade failed,
// or empty: then earlier failures of the node are forgotten.
func (b *Book) Settle(ctx context.Context, failed string) error {
	return b.giveBack(ctx, func(failures map[string]string, keeps bool) map[string]string {
		if !keeps {
			return settled(failures, b.cfg.Node, "")
		}
		return settled(failures, b.cfg.Node, failed)
	})
}

// Release gives back the slot of the node. Nothing was done with it.
func (b *Book) Release(ctx context.Context) error {
	return b.giveBack(ctx, func(failures map[string]string, _ bool) map[string]string { return failures })
}

// update returns the failures of a Lease after the node gave its slot back. keeps is set for the
// one Lease that keeps those of this node.
type update func(failures map[string]string, keeps bool) map[string]string

// giveBack writes all Leases that concern the node.
func (b *Book) giveBack(ctx context.Context, next update) error {
	for range maxTries {
		err := b.list(ctx)
		if err == nil {
			err = b.giveBackListed(ctx, next)
		}
		if err == nil {
			b.confirm(time.Time{})
			return nil
		}
		if !errors.Is(err, errLost) {
			return fmt.Errorf("give back the upgrade slot: %w", err)
		}
	}
	return fmt.Errorf("give back the upgrade slot: %w, %d times", errLost, maxTries)
}

func (b *Book) giveBackListed(ctx context.Context, next update) error {
	b.mu.Lock()
	leases := slices.Clone(b.leases)
	b.mu.Unlock()
	if len(leases) == 0 {
		return b.recordFirst(ctx, next(map[string]string{}, true))
	}
	// The write that frees the slot keeps the failure: it is known before a slot is free.
	rank := func(l Lease) int {
		if l.Spec.Holder == b.cfg.Node {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(leases, func(l, other Lease) int { return cmp.Compare(rank(l), rank(other)) })
	keeper := leases[0].Metadata.Name
	for _, l := range leases {
		if err := b.clear(ctx, l, next(l.failures(), l.Metadata.Name == keeper)); err != nil {
			return err
		}
	}
	return nil
}

// recordFirst creates a Lease for the failures of a cluster that has none.
func (b *Book) recordFirst(ctx context.Context, failures map[string]string) error {
	if len(failures) == 0 {
		return nil
	}
	text, err := json.Marshal(failures)
	if err != nil {
		return err
	}
	return b.create(ctx, Prefix+"0", map[string]any{}, map[string]string{FailuresAnnotation: string(text)})
}

// clear writes the failures of a Lease, and that the node does not hold it, if that is a change.
func (b *Book) clear(ctx context.Context, l Lease, failures map[string]string) error {
	changes := map[string]any{}
	if !maps.Equal(failures, l.failures()) {
		text, err := json.Marshal(failures)
		if err != nil {
			return err
		}
		all := map[string]string{}
		maps.Copy(all, l.Metadata.Annotations)
		all[FailuresAnnotation] = string(text)
		changes["/metadata/annotations"] = all
	}
	if l.Spec.Holder == b.cfg.Node {
		changes["/spec/holderIdentity"] = ""
	}
	if len(changes) == 0 {
		return nil
	}
	return b.patch(ctx, l, changes)
}
