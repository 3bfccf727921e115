package observe

import (
	"context"
	"time"

	"outrigger.dev/pkg/gpu"
)

// hangsCheck is the minimum time between two checks whether the driver hangs. A check does not
// access the driver or the disk.
const hangsCheck = time.Second

// watchHangs reports when the driver begins to hang, and when the driver answers again. After the
// driver answers again, watchHangs causes a refresh, because the Observer may have missed events.
// While the driver answers, watchHangs sleeps until a call in flight could count as hanging. While the
// driver hangs, it checks every second, because GPUs are unhealthy until the driver answers.
func (o *Observer[D, P]) watchHangs(ctx context.Context, source gpu.Checker) {
	t := time.NewTimer(source.HangsIn())
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
			next = max(next, source.HangsIn())
		}
		t.Reset(next)
	}
}
