package exporter

import (
	"context"
	"errors"
	"slices"
	"time"

	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/gpu/observe"
)

// judge applies a snapshot of the node to the health of the GPUs.
func (e *Exporter) judge(ctx context.Context, obs observe.Observation[nothing, nothing]) {
	switch {
	case errors.Is(obs.Err, gpu.ErrNoDriver):
		e.health.DriverGone(obs.Err.Error())
	case obs.Node != nil:
		e.cfg.Incidents.Restore(ctx, e.health, obs.Node)
		e.health.Observe(obs.Node, obs.At)
	}
}

// recheck reads the node again when a GPU may have become healthy without an event, once for each
// such time.
func (e *Exporter) recheck(now time.Time) {
	if at, ok := e.health.Next(); ok && !now.Before(at) && !at.Equal(e.rechecked) {
		e.rechecked = at
		e.observer.Refresh()
	}
}

// differs reports whether a reading shows another lasting state than the last snapshot of the GPU.
func differs(g gpu.GPU, s *telemetry.Sample) bool {
	for fault, field := range exposition.MemoryFields() {
		if v, known := s.GPU[field]; known && v > 0 != slices.Contains(g.MemoryFaults, fault) {
			return true
		}
	}
	action, known := s.GPU[telemetry.DCGM_FI_DEV_GPU_RECOVERY_ACTION]
	return known && action > 0 != g.Recovery.Needed()
}
