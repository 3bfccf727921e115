package inventory

import (
	"reflect" // DeepEqual: slices, maps or pointers are in the values

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/health"
)

// Configure applies c and rules as soon as what they need is prepared; until then the
// previous config stays in use. Resources that they do not change keep their sockets
// and streams. The kubelet's socket stays the one of the start. Configure does not
// block.
func (v *Inventory) Configure(c config.Config, rules health.Rules) {
	v.enqueue(func() error {
		v.cfg.Recorder.Configured(nil)
		v.health.SetRules(rules)
		// Reflection, because a config is a tree: a new field of it counts without a line here.
		if !reflect.DeepEqual(v.observer.Desired(), c) {
			v.log.Info("config changed")
			v.observer.Configure(c)
		}
		return nil
	})
}

// Reject reports a newer config that cannot be used: the previous one stays in use. It
// does not block.
func (v *Inventory) Reject(err error) {
	v.enqueue(func() error {
		v.cfg.Recorder.Configured(err)
		v.log.Error("new config rejected, keeping the previous one", "err", err)
		v.report(Report{Kind: cause.ConfigRefused, Reason: err.Error()})
		return nil
	})
}
