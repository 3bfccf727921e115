package inventory

import (
	"reflect"
	"sync"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/pace"
)

// Configure makes c and rules what holds, once what they need is prepared;
// until then the last config stands. What they do not change keeps its sockets
// and streams. The kubelet's socket stays the one of the start. It does not
// block.
func (v *Inventory) Configure(c config.Config, rules health.Rules) {
	v.choices.put(&choice{config: c, rules: rules}, nil)
	pace.Signal(v.chosen)
}

// Refuse tells that there is a newer config which cannot be used: the last one
// stands. It does not block.
func (v *Inventory) Refuse(err error) {
	v.choices.put(nil, err)
	pace.Signal(v.chosen)
}

// choice is what a user has chosen.
type choice struct {
	config config.Config
	rules  health.Rules
}

// choices keeps what was chosen last until it is taken in.
type choices struct {
	mu     sync.Mutex
	newest *choice
	// refusal is why a config that is newer still cannot be used.
	refusal error
}

// put takes note of a choice, or of why there is none.
func (c *choices) put(next *choice, refusal error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if next != nil {
		c.newest = next
	}
	c.refusal = refusal
}

func (c *choices) take() (*choice, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, refusal := c.newest, c.refusal
	c.newest, c.refusal = nil, nil
	return next, refusal
}

// choose takes in what Configure and Refuse were given.
func (v *Inventory) choose() {
	next, refusal := v.choices.take()
	if next != nil {
		v.cfg.Recorder.Configured(nil)
		v.health.SetRules(next.rules)
		v.publish()
		if !reflect.DeepEqual(v.observer.Wanted(), next.config) {
			v.log.Info("config has changed")
			v.observer.Configure(next.config)
		}
	}
	if refusal != nil {
		v.cfg.Recorder.Configured(refusal)
		v.log.Error("config is not used, the last one stands", "err", refusal)
		v.report(Report{Kind: ReportConfigRefused, Reason: refusal.Error()})
	}
}
