package plugin

import (
	"fmt"
	"time"

	"outrigger.dev/agents/device-plugin/internal/server"
)

// Ready returns nil while the devices are registered and listed with the kubelet, and
// otherwise what is missing.
func (p *Plugin) Ready() error {
	// A driver that hangs is reported at once, even if it holds up the loop.
	if err := p.cfg.Inventory.Hangs(); err != nil {
		return err
	}
	return p.ready.Err()
}

// mark updates Ready, and the Marker when readiness changes.
func (p *Plugin) mark() {
	err := p.missing()
	was := p.ready.Swap(err)
	if (err == nil) == (was == nil) {
		return
	}
	if err != nil {
		if p.state.Unusable() == nil {
			p.gap = time.After(server.Patience)
		} else {
			p.log.Warn("not ready", "err", err)
		}
		p.cfg.Marker.NotReady()
		return
	}
	p.cfg.Marker.Ready(p.state.Node)
	if p.gap != nil {
		p.gap = nil
		p.log.Debug("ready again: the kubelet has restarted")
		return
	}
	p.log.Info("ready: devices are registered and listed")
}

// gapOver logs that the kubelet has not come back in time.
func (p *Plugin) gapOver() {
	p.gap = nil
	if err := p.missing(); err != nil {
		p.log.Warn("not ready", "err", err)
	}
}

// missing returns why the devices are not registered and listed.
func (p *Plugin) missing() error {
	if err := p.state.Unusable(); err != nil {
		return err
	}
	return p.unlisted()
}

// unlisted returns what the kubelet has not done yet, nil if it has listed all.
func (p *Plugin) unlisted() error {
	for _, r := range p.state.Set.Resources {
		name := r.Name
		st := server.Status{}
		if s := p.servers[name]; s != nil { // otherwise the server before it has not ended yet
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
