//go:build e2e

package outages_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The phases of a node: an agent starts, something changes later, and changes back.
const (
	atStart = iota
	later
	after
	phases
)

// reference is how an agent gets on that nothing disturbs.
type reference struct {
	// want is what it publishes in the end of each phase.
	want [phases]state
	// called are the symbols of NVML that it calls from a phase on.
	called [phases]map[string]bool
}

// undisturbed runs an agent through all phases.
func undisturbed(ctx context.Context, k *kind, n *node, dir string) (_ *reference, err error) {
	if err := n.divide(); err != nil {
		return nil, err
	}
	p, err := start(ctx, k, n, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	ref := &reference{}
	var counted [phases]map[string]int
	for phase, begin := range [phases]func() error{func() error { return nil }, n.change, n.restore} {
		if err := begin(); err != nil {
			return nil, err
		}
		if ref.want[phase], err = p.settled(ctx); err != nil {
			return nil, err
		}
		if counted[phase], err = n.calls(); err != nil {
			return nil, err
		}
	}
	for phase := range ref.called {
		ref.called[phase] = map[string]bool{}
		for symbol, times := range counted[after] {
			if phase == atStart || times > counted[phase-1][symbol] {
				ref.called[phase][symbol] = true
			}
		}
	}
	return ref, nil
}

// settled waits until the agent publishes something and is ready, and then publishes nothing else
// for longer than the longest of its periods.
func (p *process) settled(ctx context.Context) (state, error) {
	var last state
	var diff string
	end := time.Now().Add(2 * limit)
	for changed := time.Now(); time.Since(changed) < p.kind.period; {
		if time.Now().After(end) {
			return nil, fmt.Errorf("%s does not settle (-before +now):\n%s", p.kind.name, diff)
		}
		if err := p.pause(ctx, time.Second); err != nil {
			return nil, err
		}
		now := p.state(ctx)
		if diff = cmp.Diff(last, now); diff != "" || now["readyz"] != "ok\n" || now["error"] != "" {
			changed = time.Now()
		}
		last = now
	}
	return last, nil
}

// differs says how a state is not that of the phase, and is empty if it is.
func (r *reference) differs(phase int, got state) string { return cmp.Diff(r.want[phase], got) }

// confirm compares with another agent that nothing disturbed, and adds the symbols that it called.
func (r *reference) confirm(k *kind, again *reference) error {
	for phase, want := range r.want {
		if diff := r.differs(phase, again.want[phase]); diff != "" {
			return fmt.Errorf("two runs of %s that nothing disturbs differ in phase %d:\n%s", k.name, phase, diff)
		}
		if phase > 0 && maps.Equal(want, r.want[phase-1]) {
			return fmt.Errorf("%s publishes no change in phase %d", k.name, phase)
		}
		maps.Copy(r.called[phase], again.called[phase])
	}
	// A string, and the last call of a process.
	for phase := range r.called {
		delete(r.called[phase], "nvmlErrorString")
		delete(r.called[phase], "nvmlShutdown")
	}
	return nil
}
