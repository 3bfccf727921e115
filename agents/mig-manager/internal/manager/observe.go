package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

// errStarting is why a manager that has not looked yet is not ready.
var errStarting = errors.New("the node has not been looked at yet")

// observe returns an Observation.
func (m *Manager) observe(ctx context.Context) Observation {
	if wanted := cmp.Or(m.node.Config, m.cfg.Default); wanted != m.wanted {
		m.wanted, m.recovery.until = wanted, time.Time{}
	}
	m.loaded = m.cfg.Loaded() // before the driver is asked: what it answers is of this loading or a later one
	o := Observation{Node: m.current(), Wanted: m.wanted, Settled: m.inEffect, Options: m.cfg.Options}
	if m.about.State == Failed {
		o.Failed = m.about.Config
	}
	if !o.Node.Known {
		return o
	}
	if m.wanted == "" {
		m.recover(ctx, nil)
		return o
	}
	o.Reloaded = m.reloaded()
	if m.plan(ctx, &o); o.Driver != nil || o.Refused != nil {
		return o
	}
	m.noted()
	o.Attempt = m.attempt.Attempt
	o.Attempt.Wait = m.attempt.left(m.now())
	if o.Change.Destroys() {
		o.Users, o.Unknown = m.cfg.Users(ctx, o.Change)
		o.Users = slices.DeleteFunc(o.Users, m.isStopped)
	}
	return o
}

// isStopped reports whether a user is a unit of the host that the next attempt stops.
func (m *Manager) isStopped(u User) bool {
	if u.Pod != "" || m.cfg.OfHost == nil || !m.cfg.OfHost(u.Unit) {
		return false
	}
	m.stopUnits = true
	return true
}

// recover ends what a process before has left unfinished, once. What cannot be ended now, such
// as a GPU that does not answer, does not keep the others from their layouts.
func (m *Manager) recover(ctx context.Context, wish Wish) {
	r := &m.recovery
	if r.done || r.left(m.now()) > 0 {
		return
	}
	err := ErrNeedsReboot
	if !m.waitsForReboot() {
		err = m.cfg.Recover(ctx, wish)
	}
	if r.done = err == nil; r.done || ctx.Err() != nil {
		return
	}
	in := r.retry.Next()
	if errors.Is(err, ErrNeedsReboot) {
		in = m.cfg.Options.RebootPause // each attempt resets the GPUs
	}
	r.until = m.now().Add(in)
	m.cfg.Log.Warn("cannot end the change that was interrupted, retrying", "in", in, "err", err)
}

// plan adds what is wanted, and what it takes.
func (m *Manager) plan(ctx context.Context, o *Observation) {
	gpus, err := m.cfg.GPUs.Read(ctx)
	if err != nil {
		o.Driver = err
		return
	}
	wish, lacking := m.cfg.Select(m.wanted, gpus)
	m.recover(ctx, wish)
	if lacking != nil && wish == nil {
		o.Refused = lacking
		return
	}
	switch change, err := m.cfg.GPUs.Plan(ctx, wish); {
	case away(err):
		o.Driver = err
	case err != nil:
		o.Refused = err
	default:
		o.Change, o.Lacking = change, lacking
		m.remember(wish)
	}
}

// away reports whether an error is that of a driver that is not there now, and not of the wish.
func away(err error) bool {
	return errors.Is(err, contract.ErrClaimed) || errors.Is(err, gpu.ErrNoDriver) || errors.Is(err, gpu.ErrHangs) || errors.Is(err, context.Canceled)
}

// remember forgets the last attempt if it was for something else.
func (m *Manager) remember(wish Wish) {
	// Maps are in the order of their keys.
	data, err := json.Marshal(wish)
	if of := m.wanted + "\n" + string(data); err != nil || of != m.attempt.of {
		m.attempt = attempt{of: of, pause: pause{retry: m.cfg.Retry}}
		m.stopUnits = false
	}
}
