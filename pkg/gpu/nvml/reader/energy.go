package reader

import (
	"context"
	"fmt"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

// Energy returns the energy counter of a GPU that a snapshot has shown. It returns an error for a GPU
// without the counter, such as one from before Volta.
func (r *Reader) Energy(ctx context.Context, id gpu.UUID) (uint64, error) {
	return nvml.Use(ctx, r.cfg.Session, func(_ context.Context, span *nvml.Span) (uint64, error) {
		v := r.view(span)
		at, known := v.memory.position(id)
		if !known {
			return 0, fmt.Errorf("read the energy counter of %s: NVML does not list the GPU", id)
		}
		handle, err := v.handle(at)
		if err != nil {
			return 0, fmt.Errorf("read the energy counter of %s: %w", id, err)
		}
		return handle.TotalEnergy()
	})
}
