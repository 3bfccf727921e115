package manager

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// errStarting is the reason why a manager is not ready before the first observation.
var errStarting = errors.New("the agent has not observed the node yet")

// observe observes the node.
func (m *Manager) observe(ctx context.Context) Observation {
	if wanted := cmp.Or(m.node.Config, m.cfg.Default); wanted != m.wanted {
		m.wanted, m.recovery.until, m.pausedSince = wanted, time.Time{}, time.Time{}
	}
	m.loaded = m.cfg.Loaded() // first, so that the GPUs are read after this load of the driver
	o := Observation{Node: m.node, Wanted: m.wanted, Settled: m.inEffect, Options: m.cfg.Options, PausedFor: m.observePause()}
	if m.about.State == Failed {
		o.Failed = m.about.Config
	}
	if !o.Node.Known {
		return o
	}
	if m.wanted == "" {
		m.recover(ctx, apply.Request{})
		return o
	}
	o.Reloaded = m.reloaded()
	if m.plan(ctx, &o); o.Driver != nil || o.Refused != nil {
		return o
	}
	m.loadRebootNote()
	o.Attempt, o.Stuck = m.attempt.Attempt, m.attempt.stuck
	o.Attempt.Wait = m.attempt.remaining(m.now())
	o.Users = o.Plan.Holders()
	m.stopUnits = m.stopUnits || slices.ContainsFunc(o.Users, m.ofHost)
	o.Users = m.markStaying(ctx, slices.DeleteFunc(o.Users, m.ofHost))
	return o
}

// markStaying sets Stays of users that come back after an eviction.
func (m *Manager) markStaying(ctx context.Context, users []mig.Holder) []mig.Holder {
	for i := range users {
		u := &users[i]
		u.Stays = u.Pod.Name != "" && m.cfg.Stays(ctx, u.Pod)
	}
	return users
}

// ofHost reports whether a user is a unit of the host that the next attempt stops.
func (m *Manager) ofHost(u mig.Holder) bool {
	return u.Pod.Name == "" && m.cfg.OfHost != nil && m.cfg.OfHost(u.Owner.Unit)
}

// recover finishes the changes of an earlier process, once. If this is not possible yet, for example
// because a GPU does not answer, the other GPUs get their layouts nevertheless.
func (m *Manager) recover(ctx context.Context, req apply.Request) {
	r := &m.recovery
	if r.done || r.remaining(m.now()) > 0 {
		return
	}
	err := errNeedsReboot
	if !m.waitsForReboot() {
		err = outcome(m.cfg.GPUs.Recover(ctx, req))
	}
	if r.done = err == nil; r.done || ctx.Err() != nil {
		return
	}
	in := r.retry.Next()
	if errors.Is(err, errNeedsReboot) {
		in = m.cfg.Options.RebootPause // each attempt resets the GPUs
	}
	r.until = m.now().Add(in)
	m.cfg.Log.Warn("cannot recover from an interrupted change, retrying", "in", in, "err", err)
}

// outcome returns the error of an attempt. It wraps errNeedsReboot if only a reboot is missing.
func outcome(r apply.Result, err error) error {
	if r.NeedsReboot() {
		return fmt.Errorf("%w: %w", errNeedsReboot, err)
	}
	return err
}

// plan adds the request and its plan, or why there is none.
func (m *Manager) plan(ctx context.Context, o *Observation) {
	seen, err := m.cfg.GPUs.Observe(ctx)
	if err != nil {
		o.Driver = err
		return
	}
	o.Request.Seen = seen
	o.Request.Desired, o.Lacking = m.cfg.Select(m.wanted, seen.GPUs())
	m.recover(ctx, o.Request)
	if o.Lacking != nil && o.Request.Desired == nil {
		o.Refused = o.Lacking
		return
	}
	o.Plan, err = m.cfg.GPUs.Plan(ctx, o.Request)
	switch err = cmp.Or(err, o.Plan.Err()); {
	case driverGone(err):
		o.Driver = err
	case err != nil:
		o.Refused = err
	default:
		m.forgetOtherAttempt(o.Request)
	}
}

// driverGone reports whether an error means that the driver is not available now. Such an error is
// not about the request.
func driverGone(err error) bool {
	return errors.Is(err, contract.ErrClaimed) || errors.Is(err, gpu.ErrNoDriver) || errors.Is(err, gpu.ErrHangs) || errors.Is(err, context.Canceled)
}

// forgetOtherAttempt resets the last attempt if it was for another request.
func (m *Manager) forgetOtherAttempt(req apply.Request) {
	// json.Marshal sorts the keys of maps.
	data, err := json.Marshal(req.Desired)
	if of := fmt.Sprintf("%x", sha256.Sum256(append([]byte(m.wanted+"\n"), data...))); err != nil || of != m.attempt.change {
		m.attempt = attempt{change: of, pause: pause{retry: m.cfg.Retry}}
		m.stopUnits = false
	}
}
