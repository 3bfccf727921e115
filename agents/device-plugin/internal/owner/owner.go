// Package owner claims the GPUs that this process advertises, so that no other
// process of the node advertises them too.
package owner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pace"
)

// retryMin and retryMax are the delays before the next claim of a GPU for which the claim
// failed, rather than that another process has the GPU.
const retryMin, retryMax = time.Second, 5 * time.Second

// Owner holds the GPUs that this process advertises. Own and Release must not be
// called concurrently.
type Owner struct {
	claims *contract.Claims
	log    *slog.Logger

	retry pace.Backoff
	// alone is set while this node has no run root.
	alone bool
	// warned is set while claims fail, once the log says why.
	warned bool
	// waits has what Run shall wait for next.
	waits pace.Latest[wait]
	freed chan struct{}
}

// wait ends when one of the denied GPUs is free, when the claim of another one is lost,
// and after retry if that is not 0.
type wait struct {
	denied []string
	retry  time.Duration
}

var _ inventory.Owner = (*Owner)(nil)

// New returns an Owner without GPUs.
func New(dir contract.Dir, writer string, log *slog.Logger) *Owner {
	dir.Log = log
	return &Owner{
		claims: dir.NewClaims(writer), log: log, retry: pace.Backoff{First: retryMin, Most: retryMax},
		waits: pace.NewLatest[wait](), freed: make(chan struct{}, 1),
	}
}

// Freed has a signal when a GPU that could not be claimed may be free, and when another
// program has removed a claim.
func (o *Owner) Freed() <-chan struct{} { return o.freed }

// Own claims exactly these GPUs, releases all others, and returns a reason for each
// GPU that it could not claim. On a node without a run root it claims nothing and
// rejects nothing, because no other process could see the claim. It tries again later.
func (o *Owner) Own(gpus []gpu.UUID) map[gpu.UUID]inventory.Rejection {
	var devices []string
	for _, id := range gpus {
		if id.Valid() {
			devices = append(devices, string(id))
		}
	}
	denied := o.claims.Claim(devices)
	out := map[gpu.UUID]inventory.Rejection{}
	var next wait
	failed, alone := false, false
	for device, err := range denied {
		id := gpu.UUID(device)
		var by contract.AdvertisedError
		switch {
		case errors.As(err, &by):
			out[id] = inventory.Rejection{Reason: by.Error() + ", and is not advertised twice"}
			next.denied = append(next.denied, device)
			continue
		case errors.Is(err, contract.ErrNoRunRoot):
			if !o.alone && !alone {
				o.log.Warn("cannot see whether another agent advertises the same gpus, advertising them and retrying", "err", err)
			}
			alone = true
		default:
			out[id] = inventory.Rejection{Fault: true, Reason: fmt.Sprintf("find out whether another agent advertises it: %v", err)}
			o.warn(err)
		}
		failed = true
	}
	o.alone = alone
	if failed {
		next.retry = o.retry.Next()
	} else {
		o.retry.Reset()
		o.warned = false
	}
	o.waits.Put(next)
	return out
}

// warn logs why claims fail, once.
func (o *Owner) warn(err error) {
	if !o.warned {
		o.warned = true
		o.log.Warn("cannot claim gpus, retrying", "err", err)
	}
}

// Run waits for GPUs that could not be claimed, and for claims that are lost, until ctx
// ends.
func (o *Owner) Run(ctx context.Context) error {
	var next wait
	select {
	case <-ctx.Done():
		return nil
	case next = <-o.waits:
	}
	for ctx.Err() == nil {
		next = o.await(ctx, next)
	}
	return nil
}

// await waits for w until there is something else to wait for, and returns that.
func (o *Owner) await(ctx context.Context, w wait) wait {
	waiting, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	defer ended.Wait()
	defer cancel()
	ended.Go(func() { o.signal(waiting, w) })
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
	if w.retry > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, w.retry)
		defer cancel()
	}
	_ = o.claims.Wait(limited, w.denied) // it ends with limited
	if ctx.Err() == nil {
		pace.Signal(o.freed)
	}
}

// Close releases all GPUs.
func (o *Owner) Close() error {
	o.claims.Release()
	return nil
}
