package inventory

import (
	"time"

	"outrigger.dev/pkg/gpu"
)

// hangCheck is how often the driver's health is looked at, which costs nothing.
const hangCheck = time.Second

// Hangs returns why the driver is known to hang.
func (v *Inventory) Hangs() error {
	if c, ok := v.cfg.Source.(gpu.Checker); ok {
		return c.Health()
	}
	return nil
}

// hangTicks returns when to look at the driver's health: never for a source
// that does not know it.
func (v *Inventory) hangTicks() (ticks <-chan time.Time, stop func()) {
	if _, ok := v.cfg.Source.(gpu.Checker); !ok {
		return nil, func() {}
	}
	t := time.NewTicker(hangCheck)
	return t.C, t.Stop
}

// checkHang acts when the driver begins to hang, and when it answers again. On
// a driver that hangs no container can start, so that no GPU is offered.
func (v *Inventory) checkHang() {
	err := v.Hangs()
	if (err == nil) == (v.state.Hang == nil) {
		return
	}
	v.state.Hang = err
	if err != nil {
		v.health.Hangs(err.Error())
		v.cfg.Recorder.Waiting(err.Error())
		v.report(Report{Kind: ReportWaiting, Reason: err.Error()})
		v.log.Error("the driver hangs, no gpu can be used", "err", err)
	} else {
		v.health.Hangs("")
		v.log.Info("the driver answers again")
		v.tell(nil, v.state.Trouble)
		// What happened meanwhile may have been missed.
		v.observer.look()
	}
	v.publish()
}
