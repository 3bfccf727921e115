// Package owner takes the GPUs that this process offers, so that no other
// process of the node offers them too.
package owner

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

// Owner has the GPUs that this process offers. Own and Release are called from
// one goroutine at a time.
type Owner struct {
	dir    contract.Dir
	writer string
	log    *slog.Logger

	held map[gpu.UUID]*contract.Held
	// alone is set once it is known that agents cannot meet on this node.
	alone bool
	// refused is the first GPU that is not to be had, for Run to wait for.
	refused chan gpu.UUID
	freed   chan struct{}
}

var _ inventory.Owner = (*Owner)(nil)

// New returns an Owner that has no GPU yet.
func New(dir contract.Dir, writer string, log *slog.Logger) *Owner {
	return &Owner{
		dir: dir, writer: writer, log: log, held: map[gpu.UUID]*contract.Held{},
		refused: make(chan gpu.UUID, 1), freed: make(chan struct{}, 1),
	}
}

// Freed tells that a GPU which was not to be had is given back.
func (o *Owner) Freed() <-chan struct{} { return o.freed }

// Own takes these GPUs and gives back all others. It returns why each that
// another process offers is not to be had. Where agents cannot meet, all are.
func (o *Owner) Own(gpus []gpu.UUID) map[gpu.UUID]string {
	for id, held := range o.held {
		if !slices.Contains(gpus, id) {
			delete(o.held, id)
			if err := held.Release(); err != nil {
				o.log.Error("give back gpu", "gpu", id, "err", err)
			}
		}
	}
	out := map[gpu.UUID]string{}
	for _, id := range gpus {
		if o.held[id] != nil || o.alone || !id.Valid() {
			continue
		}
		held, err := o.dir.Offer(string(id), o.writer)
		var by contract.OfferedError
		switch {
		case errors.As(err, &by):
			out[id] = by.Error() + ", and not offered twice"
			o.wait(id)
		case errors.Is(err, contract.ErrNoRunRoot):
			o.alone = true
			o.log.Info("another agent that offers the same GPUs would not be seen", "err", err)
		case err != nil:
			out[id] = err.Error()
			o.wait(id)
		default:
			o.held[id] = held
		}
	}
	return out
}

func (o *Owner) wait(id gpu.UUID) {
	select {
	case o.refused <- id:
	default:
	}
}

// Run waits for GPUs that are not to be had until ctx ends.
func (o *Owner) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case id := <-o.refused:
			if err := o.dir.WaitOffer(ctx, string(id)); err != nil {
				if ctx.Err() == nil {
					o.log.Warn("gpu of another agent is not waited for", "gpu", id, "err", err)
				}
				continue
			}
			select {
			case o.freed <- struct{}{}:
			default:
			}
		}
	}
}

// Release gives all GPUs back.
func (o *Owner) Release() error {
	var errs []error
	for _, held := range o.held {
		errs = append(errs, held.Release())
	}
	clear(o.held)
	return errors.Join(errs...)
}
