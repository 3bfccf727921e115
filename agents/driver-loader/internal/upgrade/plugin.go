package upgrade

import (
	"context"
	"time"

	"outrigger.dev/pkg/nodestate"
)

// pluginLimit is how long a node stays cordoned after its driver works, for a device plugin that
// does not offer the GPUs.
const pluginLimit = 2 * time.Minute

// awaitPlugin waits until the device plugin of the node offers its GPUs again: the kubelet rejects
// pods that the scheduler sends before, and their controller makes one after the other. A plugin
// that does not come back is not the upgrade's to mend, nor is one that was broken before, on a node
// whose driver was not touched. It reports whether it has waited.
func (u *Upgrade) awaitPlugin(ctx context.Context, node nodestate.Node) (waited bool) {
	if u.cfg.Offered == nil || u.journal.Untouched || !hasPlugin(node) {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, pluginLimit)
	defer cancel()
	if err := u.cfg.Offered(limited); err != nil && ctx.Err() == nil {
		u.cfg.Log.Warn("the device plugin does not offer the GPUs again, making the node schedulable nevertheless", "waited", pluginLimit, "err", err)
	}
	return true
}
