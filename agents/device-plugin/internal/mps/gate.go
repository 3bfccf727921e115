package mps

import (
	"context"
	"maps"
	"slices"
	"sync"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/resource"
)

// Gate closes a device that is shared by MPS while its daemon does not answer.
// It is safe for concurrent use.
type Gate struct {
	dir contract.Dir
	// asked has a signal after Closed has been called for a new ready file.
	asked chan struct{}

	mu sync.Mutex
	// closed has the last result of Closed for each daemon, keyed by the path of the daemon's
	// ready file (see Ready).
	closed map[string]gateState
}

type gateState struct{ root, folder, reason string }

// NewGate returns a Gate. It notices changes while Run runs.
func NewGate(dir contract.Dir) *Gate {
	return &Gate{dir: dir, asked: make(chan struct{}, 1), closed: map[string]gateState{}}
}

// Closed returns why the device cannot be allocated, or "" if it can.
func (g *Gate) Closed(r resource.Resource, d resource.Device, c config.Config) string {
	if !d.MPS {
		return ""
	}
	x := gateState{root: c.MPSRoot, folder: allocate.MPSFolder(r, d)}
	x.reason = g.reason(x)
	path := readyPath(x.root, x.folder)
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.closed[path]; !known {
		pace.Signal(g.asked)
	}
	g.closed[path] = x
	return x.reason
}

// Run calls changed when the result of Closed may have changed, until ctx ends. changed must
// not block. If no GPU is shared by MPS, Run sleeps.
func (g *Gate) Run(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		g.follow(ctx, changed)
	}
}

// follow watches the known files until there are new ones.
func (g *Gate) follow(ctx context.Context, changed func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	if files := g.files(); len(files) > 0 {
		watching.Go(func() { _ = g.dir.WatchFiles(ctx, func() { g.check(changed) }, files...) }) // WatchFiles ends with ctx
	}
	select {
	case <-ctx.Done():
	case <-g.asked:
	}
}

func (g *Gate) files() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.closed))
}

// check reads the files, and calls changed for each file with another result.
func (g *Gate) check(changed func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for path, x := range g.closed {
		if (g.reason(x) == "") == (x.reason == "") {
			continue
		}
		// Closed adds the file again if the device is still shared by MPS.
		delete(g.closed, path)
		changed()
	}
}

func (g *Gate) reason(x gateState) string {
	if err := Ready(g.dir, x.root, x.folder); err != nil {
		return err.Error()
	}
	return ""
}
