package upgrade

import (
	"context"
	"time"

	"outrigger.dev/pkg/nodestate"
)

// pluginLimit is the longest wait for the device plugin to advertise the GPUs. Until then, the node
// stays cordoned.
const pluginLimit = 2 * time.Minute

// awaitPlugin waits until the device plugin of the node advertises its GPUs again. If the node were
// schedulable before, the kubelet would reject new pods, and their controller would create one after
// the other. It does not wait if the driver was not changed, or if the node has no plugin. It reports
// whether it has waited.
func (u *Upgrade) awaitPlugin(ctx context.Context, node nodestate.Node) (waited bool) {
	if u.cfg.Offered == nil || u.journal.Untouched || !hasPlugin(node) {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, pluginLimit)
	defer cancel()
	if err := u.cfg.Offered(limited); err != nil && ctx.Err() == nil {
		u.cfg.Log.Warn("the device plugin has not advertised the gpus again, making the node schedulable anyway", "waited", pluginLimit, "err", err)
	}
	return true
}
