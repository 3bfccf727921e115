//go:build e2e

package outages_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// scenario is one agent on one node, for which a symbol fails with a code, at the start of the agent
// and later.
type scenario struct {
	kind   *kind
	ref    *reference
	symbol string
	code   int
	// outage is how long it fails in a phase; 0 if the agent does not call it there.
	outage [phases]time.Duration
}

func (s scenario) length() time.Duration { return s.outage[atStart] + s.outage[later] }

// result is how long an agent took to publish what it has to after an outage.
type result struct {
	scenario
	phase int
	took  time.Duration
	err   error
}

// run runs an agent on the node.
func (s scenario) run(ctx context.Context, n *node, dir string) (out []result) {
	var p *process
	err := errors.Join(n.answer(s.symbol, 0), n.divide())
	for phase, begin := range [phases]func() error{
		func() (err error) { p, err = start(ctx, s.kind, n, dir); return err },
		n.change, n.restore,
	} {
		if err != nil {
			break
		}
		r := result{scenario: s, phase: phase}
		r.took, err = s.phase(ctx, n, phase, begin, func() *process { return p })
		r.err = err
		if s.outage[phase] > 0 || err != nil {
			out = append(out, r)
		}
	}
	if err == nil && s.kind.reports != nil {
		err = p.reported(ctx, n, s.kind.reports)
	}
	if p != nil {
		err = errors.Join(err, p.stop())
		if err != nil {
			err = fmt.Errorf("%w\nthe end of its log:\n%s", err, p.tail())
		}
	}
	switch {
	case err == nil:
	case len(out) > 0:
		out[len(out)-1].err = err
	default:
		out = append(out, result{scenario: s, err: err})
	}
	return out
}

// phase runs one phase, and returns how long it took after the symbol answered until everything was
// as it should be.
func (s scenario) phase(ctx context.Context, n *node, phase int, begin func() error, agent func() *process) (time.Duration, error) {
	if s.outage[phase] == 0 {
		if err := begin(); err != nil {
			return 0, err
		}
		return agent().heals(ctx, s.ref, phase)
	}
	before, err := n.calls()
	if err := errors.Join(err, n.answer(s.symbol, s.code), begin()); err != nil {
		return 0, err
	}
	failed, called := time.Now(), false
	for time.Since(failed) < s.outage[phase] || !called && time.Since(failed) < s.outage[phase]+reached {
		if err := agent().pause(ctx, max(brief/3, min(s.outage[phase]/4, s.outage[phase]-time.Since(failed)))); err != nil {
			return 0, errors.Join(err, n.answer(s.symbol, 0))
		}
		agent().state(ctx) // some symbols are called only if somebody asks
		now, err := n.calls()
		if err != nil {
			return 0, err
		}
		called = now[s.symbol] > before[s.symbol]
	}
	if err := n.answer(s.symbol, 0); err != nil {
		return 0, err
	}
	return agent().heals(ctx, s.ref, phase)
}

// heals waits until the agent publishes what it has to in a phase, and returns how long that took.
func (p *process) heals(ctx context.Context, ref *reference, phase int) (time.Duration, error) {
	since := time.Now()
	for {
		diff := ref.differs(phase, p.state(ctx))
		took := time.Since(since)
		switch {
		case diff == "":
			return took, nil
		case took > limit:
			return took, fmt.Errorf("after %s it publishes (-want +got):\n%s", limit, diff)
		}
		if err := p.pause(ctx, min(max(time.Second/2, took/4), brief)); err != nil {
			return took, err
		}
	}
}

// reported waits until the agent publishes that a GPU reported an XID.
func (p *process) reported(ctx context.Context, n *node, shown func(state) bool) error {
	for since := time.Now(); time.Since(since) < limit; {
		if err := n.run("xid", "0", xid); err != nil {
			return err
		}
		for range 4 {
			if err := p.pause(ctx, time.Second/2); err != nil {
				return err
			}
			if shown(p.state(ctx)) {
				return nil
			}
		}
	}
	return fmt.Errorf("%s after XID %s the agent publishes nothing of it", limit, xid)
}

// pause waits, and returns an error if the agent ends.
func (p *process) pause(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
		return nil
	case <-p.ended:
		return fmt.Errorf("the agent ended: %w", p.err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tail returns the end of the agent's log.
func (p *process) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const enough = 3000
	return string(data[max(0, len(data)-enough):])
}
