package inventory

import (
	"reflect" // DeepEqual: the values have slices, maps or pointers

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/health"
)

// Configure applies c and rules once the node is prepared for them. Until then, the previous
// config stays in use. Resources that do not change keep their sockets and streams. A change
// of the kubelet's socket has no effect. Configure does not block.
func (v *Inventory) Configure(c config.Config, rules health.Rules) {
	v.enqueue(func() error {
		v.cfg.Recorder.Configured(nil)
		v.health.SetRules(rules)
		// With reflection, a new field of the config needs no code here.
		if !reflect.DeepEqual(v.observer.Desired(), c) {
			v.log.Info("config changed")
			v.observer.Configure(c)
		}
		return nil
	})
}

// Reject reports a newer config that cannot be used. The previous config stays in use. Reject
// does not block.
func (v *Inventory) Reject(err error) {
	v.enqueue(func() error {
		v.cfg.Recorder.Configured(err)
		v.log.Error("new config rejected, keeping the previous one", "err", err)
		v.report(Report{Kind: cause.ConfigRefused, Reason: err.Error()})
		return nil
	})
}
