package plugin

import (
	"fmt"
	"time"

	"outrigger.dev/agents/device-plugin/internal/server"
)

// Ready returns nil while the devices are registered and listed with the
// kubelet, and otherwise what is missing.
func (p *Plugin) Ready() error {
	// A driver that hangs is told at once, even by a plugin that is held up.
	if err := p.cfg.Inventory.Hangs(); err != nil {
		return err
	}
	return p.ready.Err()
}

// mark tells the node, and whoever asks Ready, when readiness changes.
func (p *Plugin) mark() {
	err := p.missing()
	was := p.ready.Set(err)
	if (err == nil) == (was == nil) {
		return
	}
	if err != nil {
		if p.state.Unusable() == nil {
			p.gap = time.After(server.Patience)
		} else {
			p.log.Warn("not ready", "err", err)
		}
		if err := p.cfg.Marker.NotReady(); err != nil {
			p.log.Error("take back readiness", "err", err)
		}
		return
	}
	if err := p.cfg.Marker.Ready(p.state.Node); err != nil {
		p.log.Error("tell readiness", "err", err)
	}
	if p.gap != nil {
		p.gap = nil
		p.log.Debug("ready again: the kubelet was away for a moment")
		return
	}
	p.log.Info("ready: devices are registered and listed")
}

// tellGap tells that the kubelet has not come back in good time.
func (p *Plugin) tellGap() {
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

// unlisted returns what the kubelet has not done yet.
func (p *Plugin) unlisted() error {
	for _, r := range p.state.Set.Resources {
		name := r.Name
		st := server.Status{}
		if s := p.servers[name]; s != nil { // else the one before it has not ended yet
			st = s.Status()
		}
		switch {
		case !st.Serving:
			return fmt.Errorf("serve %s: the socket is not open", name)
		case !p.cfg.Register:
		case !st.Registered:
			return fmt.Errorf("register %s: the kubelet has not taken it yet", name)
		case !st.Listed:
			return fmt.Errorf("list %s: the kubelet has not asked for the devices yet", name)
		}
	}
	return nil
}
