// Package owner claims the GPUs that this process advertises, so that no other
// process of the node advertises them too.
package owner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

// Owner holds the GPUs that this process advertises. Own and Close must not be
// called concurrently.
type Owner struct {
	claims *contract.Claims
	notify func()
}

var _ inventory.Owner = (*Owner)(nil)

// New returns an Owner without GPUs.
func New(dir contract.Dir, writer string, log *slog.Logger) *Owner {
	dir.Log = log
	return &Owner{claims: dir.NewClaims(writer), notify: func() {}}
}

// Notify sets what Run calls when a GPU that could not be claimed may be free, and when
// another program has removed a claim.
func (o *Owner) Notify(f func()) { o.notify = f }

// Own claims exactly these GPUs, releases all others, and returns a reason for each
// GPU that it could not claim. It returns an error if claims failed, rather than that
// another process has the GPU. On a node without a run root it claims nothing and
// rejects nothing, because no other process could see the claim; that is an error, too.
func (o *Owner) Own(gpus []gpu.UUID) (map[gpu.UUID]inventory.Rejection, error) {
	var devices []string
	for _, id := range gpus {
		if id.Valid() {
			devices = append(devices, string(id))
		}
	}
	denied := o.claims.Claim(devices)
	rejected := map[gpu.UUID]inventory.Rejection{}
	var failed error
	for _, device := range slices.Sorted(maps.Keys(denied)) {
		id, err := gpu.UUID(device), denied[device]
		if by, is := errors.AsType[contract.AdvertisedError](err); is {
			rejected[id] = inventory.Rejection{Reason: by.Error() + ", and is not advertised twice"}
			continue
		}
		if !errors.Is(err, contract.ErrNoRunRoot) {
			rejected[id] = inventory.Rejection{Fault: true, Reason: fmt.Sprintf("find out whether another agent advertises it: %v", err)}
		}
		failed = cmp.Or(failed, err)
	}
	return rejected, failed
}

// Run watches the claims until ctx ends.
func (o *Owner) Run(ctx context.Context) error {
	o.claims.Watch(ctx, o.notify)
	return nil
}

// Close releases all GPUs.
func (o *Owner) Close() error {
	o.claims.Release()
	return nil
}
