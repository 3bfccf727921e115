package manager

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/pace"
)

// KeyConfig is the key of the fact mig-ready with the config that is in effect.
const KeyConfig = "OUTRIGGER_MIG_CONFIG"

// KeyLoaded is the key of the fact mig-ready with Config.Loaded at that time: a driver that is loaded again
// may have lost the layouts.
const KeyLoaded = "OUTRIGGER_MIG_DRIVER_LOADED"

const (
	// retryFact and retryFactMost are the pauses after a fact could not be written: each attempt
	// looks at the GPUs.
	retryFact, retryFactMost = time.Second, 30 * time.Second
)

// fact is what is remembered of the fact mig-ready.
type fact struct {
	// desired is nil for none. It is the only field that another goroutine than the loop reads.
	desired atomic.Pointer[contract.Record]
	retry   pace.Backoff
	logged  string
}

// settled publishes the fact that the layouts are as the config asks. If it cannot, it returns when to
// try again.
func (m *Manager) settled(config string) time.Duration {
	r := &contract.Record{Writer: Name, DriverVersion: m.cfg.DriverVersion(), Values: map[string]string{KeyConfig: config, KeyLoaded: m.loaded}}
	m.fact.desired.Store(r)
	var err error
	if !m.isPublished(r) {
		err = m.cfg.Contract.Write(contract.MIGReady, *r)
	}
	if err == nil {
		m.fact.retry, m.fact.logged = pace.Backoff{First: retryFact, Most: retryFactMost}, ""
		return 0
	}
	in := m.fact.retry.Next()
	if text := strings.TrimSpace(err.Error()); text != m.fact.logged && !errors.Is(err, contract.ErrNoRunRoot) {
		m.fact.logged = text
		m.cfg.Log.Warn("cannot publish a fact to other agents, retrying", "fact", string(contract.MIGReady), "in", in, "err", text)
	}
	return in
}

// isPublished reports whether the fact is there as desired.
func (m *Manager) isPublished(r *contract.Record) bool {
	f := m.cfg.Contract.Read(contract.MIGReady)
	return f.State == contract.Valid && f.Stamp.Writer == r.Writer && f.Stamp.DriverVersion == r.DriverVersion &&
		f.Values[KeyConfig] == r.Values[KeyConfig] && f.Values[KeyLoaded] == r.Values[KeyLoaded]
}

// watchFact wakes the loop when another program has removed or changed the fact.
func (m *Manager) watchFact(ctx context.Context) {
	m.cfg.Contract.WatchFact(ctx, contract.MIGReady, func() bool {
		r := m.fact.desired.Load()
		lost := r != nil && !m.isPublished(r)
		if lost {
			m.Changed()
		}
		return lost
	})
}

// withdraw removes the fact.
func (m *Manager) withdraw() {
	m.fact.desired.Store(nil)
	if err := m.cfg.Contract.Remove(contract.MIGReady); err != nil && !errors.Is(err, contract.ErrNoRunRoot) {
		m.cfg.Log.Warn("cannot withdraw a fact", "fact", string(contract.MIGReady), "err", err)
	}
}
