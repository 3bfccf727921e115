// Package owner takes the GPUs that this process offers, so that no other
// process of the node offers them too.
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

// retry is how long a GPU that cannot be owned is left alone, for another reason
// than that another process offers it.
const retry = 10 * time.Second

// Owner has the GPUs that this process offers. Own and Release are called from
// one goroutine at a time.
type Owner struct {
	dir    contract.Dir
	writer string
	log    *slog.Logger

	held map[gpu.UUID]*contract.Held
	// alone is set once it is known that agents cannot meet on this node.
	alone bool
	// waits has what Run is to wait for, if that is not what it waits for.
	waits pace.Latest[wait]
	// waiting is set while Run waits for anything.
	waiting bool
	freed   chan struct{}
}

// wait is for any of the GPUs that others offer, and is over after a while if
// there are some that failed.
type wait struct {
	offered []string
	failed  bool
}

func (w wait) none() bool { return len(w.offered) == 0 && !w.failed }

var _ inventory.Owner = (*Owner)(nil)

// New returns an Owner that has no GPU yet.
func New(dir contract.Dir, writer string, log *slog.Logger) *Owner {
	return &Owner{
		dir: dir, writer: writer, log: log, held: map[gpu.UUID]*contract.Held{},
		waits: pace.NewLatest[wait](), freed: make(chan struct{}, 1),
	}
}

// Freed tells that a GPU which was not to be had may be now.
func (o *Owner) Freed() <-chan struct{} { return o.freed }

// Own takes these GPUs and gives back all others. It returns why each is not to
// be had that another process offers, or of which that cannot be found out.
// Where agents cannot meet, all are to be had.
func (o *Owner) Own(gpus []gpu.UUID) map[gpu.UUID]inventory.Refusal {
	o.giveBack(gpus)
	out := map[gpu.UUID]inventory.Refusal{}
	var next wait
	for _, id := range gpus {
		if o.held[id] != nil || o.alone || !id.Valid() {
			continue
		}
		held, err := o.dir.Offer(string(id), o.writer)
		var by contract.OfferedError
		switch {
		case errors.As(err, &by):
			out[id] = inventory.Refusal{Reason: by.Error() + ", and not offered twice"}
			next.offered = append(next.offered, string(id))
		case errors.Is(err, contract.ErrNoRunRoot):
			o.alone = true
			o.log.Info("another agent that offers the same GPUs would not be seen", "err", err)
		case err != nil:
			out[id] = inventory.Refusal{Fault: true, Reason: fmt.Sprintf("find out whether another agent offers it: %v", err)}
			next.failed = true
		default:
			o.held[id] = held
		}
	}
	o.wait(next)
	return out
}

// giveBack gives all GPUs back but these.
func (o *Owner) giveBack(but []gpu.UUID) {
	for id, held := range o.held {
		if slices.Contains(but, id) {
			continue
		}
		delete(o.held, id)
		if err := held.Release(); err != nil {
			o.log.Error("give back gpu", "gpu", id, "err", err)
		}
	}
}

// wait has Run wait for w, and for nothing else.
func (o *Owner) wait(w wait) {
	if w.none() && !o.waiting {
		return
	}
	o.waiting = !w.none()
	o.waits.Put(w)
}

// Run waits for GPUs that are not to be had until ctx ends.
func (o *Owner) Run(ctx context.Context) error {
	for w := (wait{}); ctx.Err() == nil; {
		w = o.await(ctx, w)
	}
	return nil
}

// await waits for w until there is something else to wait for, which it returns.
func (o *Owner) await(ctx context.Context, w wait) wait {
	waiting, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	defer ended.Wait()
	defer cancel()
	if !w.none() {
		ended.Go(func() { o.tell(waiting, w) })
	}
	select {
	case <-ctx.Done():
		return wait{}
	case next := <-o.waits:
		return next
	}
}

// tell tells when w is over.
func (o *Owner) tell(ctx context.Context, w wait) {
	limited := ctx
	if w.failed {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, retry)
		defer cancel()
	}
	err := o.untilFree(limited, w.offered)
	if ctx.Err() != nil {
		return
	}
	if err != nil && limited.Err() == nil {
		o.log.Warn("gpus of another agent are not waited for, trying from time to time", "gpus", w.offered, "in", retry, "err", err)
		if !pace.Pause(ctx, retry) {
			return
		}
	}
	pace.Signal(o.freed)
}

// untilFree waits until one of the GPUs is free, and for ctx if there is none.
func (o *Owner) untilFree(ctx context.Context, gpus []string) error {
	if len(gpus) > 0 {
		return o.dir.WaitOffer(ctx, gpus...)
	}
	<-ctx.Done()
	return ctx.Err()
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
