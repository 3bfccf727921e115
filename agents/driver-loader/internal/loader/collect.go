package loader

import (
	"errors"

	"outrigger.dev/agents/driver-loader/internal/garbage"
)

// collect removes everything from the store that the node does not need. Call it in the desired state.
func (l *Loader) collect(o Observation, desired Driver) {
	needed := garbage.Needed{Kernels: append(garbage.Installed(l.cfg.Kernel.Modules), o.Kernel.Release)}
	drivers := []Driver{o.Running, o.Before, desired, {Digest: o.Shown}}
	if o.Change != nil {
		drivers = append(drivers, o.Change.From)
	}
	for _, d := range drivers {
		if d.Digest != "" {
			needed.Sources = append(needed.Sources, d.Digest)
		}
	}
	removed, err := garbage.Collect(l.cfg.Store, needed)
	err = errors.Join(err, l.cfg.Builder.RemoveAbandoned())
	if err != nil {
		l.cfg.Log.Warn("cannot remove unneeded drivers and modules from the store, retrying later", "err", err)
	}
	if len(removed) > 0 {
		l.cfg.Log.Info("removed unneeded drivers, modules and headers from the store", "folders", removed)
	}
}
