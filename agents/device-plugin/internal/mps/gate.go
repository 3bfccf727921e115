package mps

import (
	"context"
	"sync"
	"time"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/resource"
)

// gateEvery is how often the daemons' files are looked at, on nodes that share
// GPUs by MPS: the death of a writer is no change of its file.
const gateEvery = time.Second

// Gate keeps a resource that is shared by MPS from being handed out while its
// daemon does not answer. It is safe for concurrent use.
type Gate struct {
	dir     contract.Dir
	changed chan struct{}

	mu sync.Mutex
	// closed has what was last found out of each resource that was asked for,
	// by its ready file.
	closed map[string]gated
}

type gated struct{ root, resource, reason string }

// NewGate returns a Gate; it notices changes while Run runs.
func NewGate(dir contract.Dir) *Gate {
	return &Gate{dir: dir, changed: make(chan struct{}, 1), closed: map[string]gated{}}
}

// Closed returns why the resource cannot be handed out, empty if it can.
func (g *Gate) Closed(r resource.Resource, c config.Config) string {
	if r.Sharing != config.SharingMPS {
		return ""
	}
	x := gated{root: c.MPSRoot, resource: r.Name}
	x.reason = g.reason(x)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed[readyPath(x.root, x.resource)] = x
	return x.reason
}

// Changed tells that Closed may answer otherwise than before.
func (g *Gate) Changed() <-chan struct{} { return g.changed }

// Run looks at the daemons' files until ctx ends.
func (g *Gate) Run(ctx context.Context) error {
	tick := time.NewTicker(gateEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			g.look()
		}
	}
}

func (g *Gate) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, x := range g.closed {
		if (g.reason(x) == "") == (x.reason == "") {
			continue
		}
		// Closed is asked again, for what is still shared.
		clear(g.closed)
		select {
		case g.changed <- struct{}{}:
		default:
		}
		return
	}
}

func (g *Gate) reason(x gated) string {
	if err := Ready(g.dir, x.root, x.resource); err != nil {
		return err.Error()
	}
	return ""
}
