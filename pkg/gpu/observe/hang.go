package observe

import (
	"context"
	"time"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pace"
)

// hangsCheck is the least time between two checks whether the driver hangs. A
// check asks no driver and reads no disk.
const hangsCheck = time.Second

// hangsRest is the longest time between two checks, when other checks happen too.
const hangsRest = 30 * time.Second

// watchHangs reports when the driver begins to hang, and when it answers again.
// Then it causes a refresh, since the Observer may have missed events. While the
// driver answers, it sleeps until a call in flight could be one that hangs, and at most
// 30 s. While the driver hangs, it checks every second: GPUs are unhealthy until then.
func (o *Observer[D, P]) watchHangs(ctx context.Context, source gpu.Checker) {
	t := time.NewTimer(min(source.HangsIn(), pace.Aligned(hangsRest)))
	defer t.Stop()
	hangs := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err := source.Health()
		if (err != nil) != hangs {
			hangs = err != nil
			select {
			case <-ctx.Done():
				return
			case o.hangs <- err:
			}
			if !hangs {
				o.Refresh()
			}
		}
		next := hangsCheck
		if !hangs {
			next = max(next, min(source.HangsIn(), pace.Aligned(hangsRest)))
		}
		t.Reset(next)
	}
}
