package plugin

import (
	"fmt"
	"time"

	"outrigger.dev/agents/device-plugin/internal/server"
)

// Ready returns nil while the devices are registered and listed with the kubelet, and
// otherwise the reason.
func (p *Plugin) Ready() error {
	// A driver that hangs is reported at once, even if it blocks the loop.
	if err := p.cfg.Inventory.Hangs(); err != nil {
		return err
	}
	return p.ready.Err()
}

// updateReady updates the result of Ready, and calls Config.Ready when readiness changes. It
// returns the duration until it has to be called again, or 0 if it need not.
func (p *Plugin) updateReady() time.Duration {
	err, was := p.missing(), p.ready.Err()
	p.ready.Set(err)
	switch {
	case err == nil && was == nil:
	case err == nil:
		p.cfg.Ready(p.state.Node)
		if p.warnAfter.IsZero() {
			p.log.Info("ready: devices are registered and listed")
		} else {
			p.log.Debug("ready again: the kubelet has restarted")
		}
		p.warnAfter = time.Time{}
	case was == nil:
		p.cfg.Ready(nil)
		if p.state.Unusable() == nil {
			p.warnAfter = time.Now().Add(server.Patience)
			return server.Patience
		}
		p.log.Warn("not ready", "err", err)
	case !p.warnAfter.IsZero():
		if in := time.Until(p.warnAfter); in > 0 {
			return in
		}
		p.warnAfter = time.Time{}
		p.log.Warn("not ready", "err", err)
	}
	return 0
}

// missing returns why the devices are not registered and listed.
func (p *Plugin) missing() error {
	if err := p.state.Unusable(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.state.Set.Resources {
		name := r.Name
		st := server.Status{}
		if s := p.servers[name]; s != nil { // otherwise an earlier server has not ended yet
			st = s.Status()
		}
		switch {
		case !st.Serving:
			return fmt.Errorf("serve %s: the socket is not open", name)
		case !p.cfg.Register:
		case !st.Registered:
			return fmt.Errorf("register %s: the kubelet has not accepted it yet", name)
		case !st.Listed:
			return fmt.Errorf("list %s: the kubelet has not asked for the devices yet", name)
		}
	}
	return nil
}
