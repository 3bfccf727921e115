package gpus

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pace"
)

const (
	// pollTime is how often Watch reads the files of the kernel driver.
	pollTime = 500 * time.Millisecond
	// recheck is how often Watch requests another Snapshot if a GPU of the node supports MIG. The
	// kernel shows only the numbers of MIG devices, and other MIG devices can have the same numbers
	// at the next poll.
	recheck = time.Minute
)

// Source is the source of the node's GPUs for agents that do not link NVML. It does not hold GPUs
// open between two snapshots: an open GPU can prevent another program from changing the MIG mode
// or unloading the driver.
type Source struct {
	cfg Config

	mu sync.Mutex
	// observed is the state of the kernel driver when the last Snapshot began, at the time
	// observedAt. divisible is true if a GPU in that Snapshot supports MIG.
	observed   driverState
	observedAt time.Time
	divisible  bool
}

var _ gpu.Source = (*Source)(nil)

// New returns a Source. It starts nothing.
func New(cfg Config) *Source { return &Source{cfg: cfg} }

// Snapshot returns the GPUs as Read does.
func (s *Source) Snapshot(ctx context.Context) (*gpu.Node, error) {
	s.mu.Lock()
	s.observed, s.observedAt = s.observe(), time.Now()
	s.mu.Unlock()
	n, err := Read(ctx, s.cfg)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.divisible = slices.ContainsFunc(n.GPUs, func(g gpu.GPU) bool { return g.MIG != nil })
	}
	return n, err
}

// observe reads the state of the kernel driver. The caller must hold the lock.
func (s *Source) observe() driverState { return observe(driverproc.Root(s.cfg.ProcRoot), s.observed) }

// stale reports whether the state of the kernel driver has changed since the last Snapshot began,
// or may have changed in a way that the kernel does not show. It returns true once for a change.
func (s *Source) stale() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.observe()
	if now.equal(s.observed) && !(s.divisible && time.Since(s.observedAt) >= recheck) {
		return false
	}
	s.observed, s.observedAt = now, time.Now()
	return true
}

// Watch delivers EventTopologyChanged within half a second after a change of the driver, of its
// GPUs, or of the numbers of their MIG devices. It delivers the event within a minute after a
// change that the kernel does not show. It does not deliver errors of GPUs.
func (s *Source) Watch(ctx context.Context, deliver func(gpu.Event)) error {
	deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
	for pace.Pause(ctx, pollTime) {
		if s.stale() {
			deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
		}
	}
	return nil
}

// Close does nothing.
func (s *Source) Close() error { return nil }

// driverState is the state of the GPUs as the kernel driver shows it.
type driverState struct {
	version string
	// minors maps bus IDs of GPUs to their minor numbers.
	minors map[string]int
	// instances maps GPU instances to the IDs of their compute instances.
	instances map[instance][]uint32
}

type instance struct {
	minor int
	id    uint32
}

func (a driverState) equal(b driverState) bool {
	return a.version == b.version && maps.Equal(a.minors, b.minors) && maps.EqualFunc(a.instances, b.instances, slices.Equal[[]uint32])
}

// observe reads the state of the kernel driver, without access to the GPUs. It reuses the minor
// numbers of last.
func observe(root driverproc.Root, last driverState) driverState {
	s := driverState{minors: map[string]int{}, instances: map[instance][]uint32{}}
	s.version, _ = root.Version() // none without a driver
	for _, bus := range root.BusIDs() {
		minor, known := last.minors[bus]
		if !known || minor == driverproc.NoMinor || s.version != last.version {
			g, err := root.GPU(bus)
			if err != nil {
				continue
			}
			minor = g.Minor
		}
		s.minors[bus] = minor
		for _, id := range root.GPUInstances(minor) {
			s.instances[instance{minor, id}] = root.ComputeInstances(minor, id)
		}
	}
	return s
}
