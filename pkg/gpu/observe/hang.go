package observe

import (
	"context"
	"time"

	"outrigger.dev/pkg/gpu"
)

// hangCheck is how often the driver's health is looked at, which costs nothing.
const hangCheck = time.Second

// watchHangs tells when the driver begins to hang, and when it answers again,
// after which it causes a look: what happened meanwhile may have been missed.
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
		if !hangs {
			o.Look()
		}
	}
}
