package slots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
)

// maxTries is how often Settle tries again after another node was faster.
const maxTries = 10

// Settle gives back the slot of the node. failed is the driver with which its upgrade failed,
// or empty: then earlier failures of the node are forgotten.
func (b *Book) Settle(ctx context.Context, failed string) error {
	return b.settle(ctx, func(failures map[string]string, record bool) map[string]string {
		if record {
			return settled(failures, b.cfg.Node, failed)
		}
		return settled(failures, b.cfg.Node, "")
	}, failed != "")
}

// Release gives back the slot of the node. Nothing was done with it.
func (b *Book) Release(ctx context.Context) error {
	return b.settle(ctx, func(failures map[string]string, _ bool) map[string]string { return failures }, false)
}

// settle writes all Leases that concern the node: at first the one that keeps its failure, with
// which the slot is freed.
func (b *Book) settle(ctx context.Context, next func(failures map[string]string, record bool) map[string]string, fails bool) error {
	for range maxTries {
		if err := b.list(ctx); err != nil {
			return err
		}
		err := b.settleListed(ctx, next, fails)
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

func (b *Book) settleListed(ctx context.Context, next func(failures map[string]string, record bool) map[string]string, fails bool) error {
	b.mu.Lock()
	leases := b.leases
	b.mu.Unlock()
	keeper := ""
	if held := b.held(); len(held) > 0 {
		keeper = held[0].Metadata.Name
	} else if len(leases) > 0 {
		keeper = leases[0].Metadata.Name
	}
	if keeper == "" && fails {
		text, err := json.Marshal(next(map[string]string{}, true))
		if err != nil {
			return err
		}
		return b.create(ctx, Prefix+"0", map[string]any{}, map[string]string{FailuresAnnotation: string(text)})
	}
	for _, last := range []bool{false, true} { // the failure is known before another slot is free
		for _, l := range leases {
			if (l.Metadata.Name != keeper) != last {
				continue
			}
			if err := b.clear(ctx, l, next(l.failures(), l.Metadata.Name == keeper)); err != nil {
				return err
			}
		}
	}
	return nil
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
