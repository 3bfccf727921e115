// Package owner claims the GPUs that this process advertises, so that no other
// process of the node advertises them too.
package owner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pace"
)

// retry is the delay before the next claim of a GPU for which the claim failed, rather
// than that another process has the GPU.
const retry = 10 * time.Second

// Owner holds the GPUs that this process advertises. Own and Release must not be
// called concurrently.
type Owner struct {
	dir    contract.Dir
	writer string
	log    *slog.Logger

	held map[gpu.UUID]*contract.Held
	// alone is set once a claim showed that this node has no run root.
	alone bool
	// waits has what Run shall wait for next.
	waits pace.Latest[wait]
	// waiting is set while Run waits for a GPU.
	waiting bool
	freed   chan struct{}
}

// wait ends when one of the GPUs that other processes hold is free, and after retry if
// a claim failed.
type wait struct {
	held   []string
	failed bool
}

func (w wait) none() bool { return len(w.held) == 0 && !w.failed }

var _ inventory.Owner = (*Owner)(nil)

// New returns an Owner without GPUs.
func New(dir contract.Dir, writer string, log *slog.Logger) *Owner {
	return &Owner{
		dir: dir, writer: writer, log: log, held: map[gpu.UUID]*contract.Held{},
		waits: pace.NewLatest[wait](), freed: make(chan struct{}, 1),
	}
}

// Freed has a signal when a GPU that could not be claimed may be free.
func (o *Owner) Freed() <-chan struct{} { return o.freed }

// Own claims exactly these GPUs, releases all others, and returns a reason for each
// GPU that it could not claim. On a node without a run root it claims nothing and
// rejects nothing: no other process could see the claim.
func (o *Owner) Own(gpus []gpu.UUID) map[gpu.UUID]inventory.Rejection {
	o.releaseOthers(gpus)
	out := map[gpu.UUID]inventory.Rejection{}
	var next wait
	for _, id := range gpus {
		if o.held[id] != nil || o.alone || !id.Valid() {
			continue
		}
		held, err := o.dir.ClaimGPU(string(id), o.writer)
		var by contract.AdvertisedError
		switch {
		case errors.As(err, &by):
			out[id] = inventory.Rejection{Reason: by.Error() + ", and is not advertised twice"}
			next.held = append(next.held, string(id))
		case errors.Is(err, contract.ErrNoRunRoot):
			o.alone = true
			o.log.Info("cannot see whether another agent advertises the same gpus, advertising them", "err", err)
		case err != nil:
			out[id] = inventory.Rejection{Fault: true, Reason: fmt.Sprintf("find out whether another agent advertises it: %v", err)}
			next.failed = true
		default:
			o.held[id] = held
		}
	}
	o.wait(next)
	return out
}

// releaseOthers releases all GPUs but these.
func (o *Owner) releaseOthers(but []gpu.UUID) {
	for id, held := range o.held {
		if slices.Contains(but, id) {
			continue
		}
		delete(o.held, id)
		if err := held.Release(); err != nil {
			o.log.Error("cannot release gpu", "gpu", id, "err", err)
		}
	}
}

// wait makes Run wait for w instead of what it waits for now.
func (o *Owner) wait(w wait) {
	if w.none() && !o.waiting {
		return
	}
	o.waiting = !w.none()
	o.waits.Put(w)
}

// Run waits for GPUs that could not be claimed until ctx ends.
func (o *Owner) Run(ctx context.Context) error {
	for w := (wait{}); ctx.Err() == nil; {
		w = o.await(ctx, w)
	}
	return nil
}

// await waits for w until there is something else to wait for, and returns that.
func (o *Owner) await(ctx context.Context, w wait) wait {
	waiting, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	defer ended.Wait()
	defer cancel()
	if !w.none() {
		ended.Go(func() { o.signal(waiting, w) })
	}
	select {
	case <-ctx.Done():
		return wait{}
	case next := <-o.waits:
		return next
	}
}

// signal sends Freed when w ends.
func (o *Owner) signal(ctx context.Context, w wait) {
	limited := ctx
	if w.failed {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, retry)
		defer cancel()
	}
	err := o.untilFree(limited, w.held)
	if ctx.Err() != nil {
		return
	}
	if err != nil && limited.Err() == nil {
		o.log.Warn("cannot watch gpus held by another agent, polling", "gpus", w.held, "every", retry, "err", err)
		if !pace.Pause(ctx, retry) {
			return
		}
	}
	pace.Signal(o.freed)
}

// untilFree waits until one of the GPUs is free, or without GPUs until ctx ends.
func (o *Owner) untilFree(ctx context.Context, gpus []string) error {
	if len(gpus) > 0 {
		return o.dir.WaitGPU(ctx, gpus...)
	}
	<-ctx.Done()
	return ctx.Err()
}

// Release releases all GPUs.
func (o *Owner) Release() error {
	var errs []error
	for _, held := range o.held {
		errs = append(errs, held.Release())
	}
	clear(o.held)
	return errors.Join(errs...)
}
