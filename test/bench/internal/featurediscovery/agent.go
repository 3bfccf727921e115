package featurediscovery

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"outrigger.dev/test/bench/internal/process"
)

// agent is a running process of feature discovery.
type agent struct {
	*process.Process

	output output
	dest   *destination
	// first is the time when its labels appeared.
	first time.Time

	watching sync.WaitGroup
	cancel   context.CancelFunc

	mu sync.Mutex
	// node is the last published state, and at is its time.
	node node
	at   time.Time
	err  error
	// changed is closed when a newer state is recorded.
	changed chan struct{}
}

// begin starts the agent, and returns when the labels of the scene are published.
func (b *Bench) begin(ctx context.Context, s scene, o output) (*agent, error) {
	dirs := map[string]string{}
	for _, name := range []string{"run", "log"} {
		dir, err := b.Node.Dir(name)
		if err != nil {
			return nil, fmt.Errorf("create folder: %w", err)
		}
		dirs[name] = dir
	}
	place, err := o.open(b)
	if err != nil {
		return nil, err
	}
	a := &agent{output: o, dest: place, changed: make(chan struct{})}
	line := append([]string{filepath.Join(b.Node.Bin, Name), "--run-root", dirs["run"], "--listen", "127.0.0.1:0"}, place.args...)
	a.watch(ctx)
	a.Process, err = process.Start(ctx, process.Config{
		Line: append(line, s.args...), Env: place.env, Log: filepath.Join(dirs["log"], Name+".log"),
	})
	if err != nil {
		a.unwatch()
		return nil, err
	}
	if a.first, err = a.until(ctx, s.shows(s.value)); err != nil {
		return nil, errors.Join(err, a.stop())
	}
	return a, nil
}

// watch records the published states until unwatch is called.
func (a *agent) watch(ctx context.Context) {
	ctx, a.cancel = context.WithCancel(ctx)
	a.watching.Go(func() {
		err := a.dest.watch(ctx, func(n node) { a.record(n, nil) })
		if err != nil {
			a.record(node{}, err)
		}
	})
}

func (a *agent) unwatch() {
	a.cancel()
	a.dest.close()
	a.watching.Wait()
}

func (a *agent) record(n node, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.node, a.at, a.err = n, time.Now(), err
	close(a.changed)
	a.changed = make(chan struct{})
}

// until waits until the function holds returns true for the published state, and returns the time
// of that state.
func (a *agent) until(ctx context.Context, holds func(node) bool) (time.Time, error) {
	ctx, cancel := process.Limited(ctx)
	defer cancel()
	for {
		a.mu.Lock()
		node, at, err, changed := a.node, a.at, a.err, a.changed
		a.mu.Unlock()
		switch {
		case err != nil:
			return at, fmt.Errorf("watch the %s: %w", a.output.name, err)
		case holds(node):
			return at, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return at, fmt.Errorf("wait for the output: %w; it has labels %v, conditions %v\n%s", context.Cause(ctx), node.Labels, node.Conditions, a.Tail())
		}
	}
}

// stop stops the agent.
func (a *agent) stop() error {
	defer a.unwatch()
	return a.Stop()
}
