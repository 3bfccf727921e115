package observe

import (
	"context"
	"time"

	"outrigger.dev/pkg/gpu"
)

// A driver hangs when a call takes longer than half a minute, so that a check
// every few seconds reports it in time. While the driver hangs, checks are more
// frequent: GPUs are unhealthy until one shows that the driver answers again. A
// check asks no driver and reads no disk.
const (
	hangCheck  = 5 * time.Second
	hangsCheck = time.Second
)

// watchHangs reports when the driver begins to hang, and when it answers again.
// Then it causes a look, since the Observer may have missed events.
func (o *Observer[W, P]) watchHangs(ctx context.Context, source gpu.Checker) {
	t := time.NewTicker(hangCheck)
	defer t.Stop()
	hangs := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err := source.Health()
		if (err != nil) == hangs {
			continue
		}
		hangs = err != nil
		select {
		case <-ctx.Done():
			return
		case o.hangs <- err:
		}
		if hangs {
			t.Reset(hangsCheck)
		} else {
			t.Reset(hangCheck)
			o.Look()
		}
	}
}
