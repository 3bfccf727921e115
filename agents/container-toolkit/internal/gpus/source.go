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
	// pollTime is how often Watch looks at the files of the kernel driver.
	pollTime = 500 * time.Millisecond
	// recheck is how often Watch asks for another Snapshot of a node whose GPUs can be
	// divided: the kernel shows the numbers of MIG devices, which others may have by the
	// next look.
	recheck = time.Minute
)

// Source is the GPUs of the node, for agents that do not link NVML. It holds no GPU open
// between two snapshots: what does can keep another program from changing the MIG mode, and
// from unloading the driver.
type Source struct {
	cfg Config

	mu sync.Mutex
	// observed is what the kernel driver showed when the last Snapshot began, and at the time
	// of that. divisible is set if this Snapshot has GPUs that can be divided.
	observed   driverState
	observedAt time.Time
	divisible  bool
}

var _ gpu.Source = (*Source)(nil)

// New returns a Source. It starts nothing.
func New(cfg Config) *Source { return &Source{cfg: cfg} }

// Snapshot is Read.
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

// observe needs the lock.
func (s *Source) observe() driverState { return observe(driverproc.Root(s.cfg.ProcRoot), s.observed) }

// stale reports whether the kernel driver shows something else than when the last Snapshot
// began, or may have changed what it does not show. It returns true once for a change.
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

// Watch delivers EventTopologyChanged within half a second after a change of the driver, of
// its GPUs, or of the numbers of their MIG devices, and within a minute after one of what
// the kernel does not show. It delivers no errors of GPUs.
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

// driverState is what the kernel driver shows of the GPUs.
type driverState struct {
	version string
	// minors are those of the GPUs by bus ID.
	minors map[string]int
	// instances has the compute instances of each GPU instance.
	instances map[instance][]uint32
}

type instance struct {
	minor int
	id    uint32
}

func (a driverState) equal(b driverState) bool {
	return a.version == b.version && maps.Equal(a.minors, b.minors) && maps.EqualFunc(a.instances, b.instances, slices.Equal[[]uint32])
}

// observe reads what the kernel driver shows. It asks nothing of the GPUs.
// It takes the minors of GPUs that last shows from there.
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
