package plugin

import (
	"context"
	"time"

	"outrigger.dev/pkg/gpu"
)

// hangCheck is how often the driver's health is looked at, which costs nothing.
const hangCheck = time.Second

// hangs returns why the driver is known to hang.
func (p *Plugin) hangs() error {
	if c, ok := p.cfg.Source.(gpu.Checker); ok {
		return c.Health()
	}
	return nil
}

// hangTicks returns when to look at the driver's health: never for a source
// that does not know it.
func (p *Plugin) hangTicks() (ticks <-chan time.Time, stop func()) {
	if _, ok := p.cfg.Source.(gpu.Checker); !ok {
		return nil, func() {}
	}
	t := time.NewTicker(hangCheck)
	return t.C, t.Stop
}

// checkHang acts when the driver begins to hang, and when it answers again. On
// a driver that hangs no container can start, so that no GPU is offered.
func (p *Plugin) checkHang(ctx context.Context) {
	err := p.hangs()
	if (err == nil) == (p.hang == nil) {
		return
	}
	p.hang = err
	if err != nil {
		p.health.Hangs(err.Error())
		p.cfg.Recorder.Waiting(err.Error())
		p.report(Report{Kind: ReportWaiting, Reason: err.Error()})
		p.log.Error("the driver hangs, no gpu can be used", "err", err)
	} else {
		p.health.Hangs("")
		p.log.Info("the driver answers again")
		p.tell(nil, p.trouble)
		// What happened meanwhile may have been missed.
		p.observer.look()
	}
	p.publish(ctx)
}
