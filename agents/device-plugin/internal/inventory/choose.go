package inventory

import (
	"reflect"
	"sync"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/pace"
)

// Configure applies c and rules as soon as what they need is prepared; until then the
// previous config stays in use. Resources that they do not change keep their sockets
// and streams. The kubelet's socket stays the one of the start. Configure does not
// block.
func (v *Inventory) Configure(c config.Config, rules health.Rules) {
	v.choices.put(&choice{config: c, rules: rules}, nil)
	pace.Signal(v.chosen)
}

// Reject reports a newer config that cannot be used: the previous one stays in use. It
// does not block.
func (v *Inventory) Reject(err error) {
	v.choices.put(nil, err)
	pace.Signal(v.chosen)
}

// choice is a config that a user has chosen.
type choice struct {
	config config.Config
	rules  health.Rules
}

// choices keeps the newest choice until the loop takes it.
type choices struct {
	mu     sync.Mutex
	newest *choice
	// rejection is why a config that is newer still cannot be used.
	rejection error
}

// put records a choice, or why a newer config cannot be used.
func (c *choices) put(next *choice, rejection error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if next != nil {
		c.newest = next
	}
	c.rejection = rejection
}

func (c *choices) take() (*choice, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, rejection := c.newest, c.rejection
	c.newest, c.rejection = nil, nil
	return next, rejection
}

// choose applies what Configure and Reject were called with.
func (v *Inventory) choose() {
	next, rejection := v.choices.take()
	if next != nil {
		v.cfg.Recorder.Configured(nil)
		v.health.SetRules(next.rules)
		v.publish()
		// Reflection, because a config is a tree: a new field of it counts without a line here.
		if !reflect.DeepEqual(v.observer.Desired(), next.config) {
			v.log.Info("config changed")
			v.observer.Configure(next.config)
		}
	}
	if rejection != nil {
		v.cfg.Recorder.Configured(rejection)
		v.log.Error("new config rejected, keeping the previous one", "err", rejection)
		v.report(Report{Kind: ReportConfigRejected, Reason: rejection.Error()})
	}
}
