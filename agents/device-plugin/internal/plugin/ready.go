package plugin

import (
	"errors"
	"fmt"
	"time"

	"outrigger.dev/agents/device-plugin/internal/server"
	"outrigger.dev/pkg/gpu"
)

type readiness struct{ err error }

var errStarting = errors.New("start: the node has not been looked at yet")

// Ready returns nil while the devices are registered and listed with the
// kubelet, and otherwise what is missing.
func (p *Plugin) Ready() error {
	// A driver that hangs is told at once, even by a plugin that is held up.
	if err := p.hangs(); err != nil {
		return err
	}
	return p.ready.Load().err
}

// mark tells the node, and whoever asks Ready, when readiness changes.
func (p *Plugin) mark() {
	err := p.missing()
	was := p.ready.Load().err
	p.ready.Store(&readiness{err: err})
	if (err == nil) == (was == nil) {
		return
	}
	if err != nil {
		if p.unusable() == nil {
			p.gap = time.After(server.Patience)
		} else {
			p.log.Warn("not ready", "err", err)
		}
		if err := p.cfg.Marker.NotReady(); err != nil {
			p.log.Error("take back readiness", "err", err)
		}
		return
	}
	if err := p.cfg.Marker.Ready(p.node); err != nil {
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
	if err := p.unusable(); err != nil {
		return err
	}
	return p.unlisted()
}

// unusable returns why there are no devices to register.
func (p *Plugin) unusable() error {
	if p.hang != nil {
		return p.hang
	}
	if p.node == nil {
		if p.trouble != nil {
			return p.trouble
		}
		return errStarting
	}
	if errors.Is(p.trouble, gpu.ErrNoDriver) {
		return p.trouble
	}
	if len(p.offered.Resources) == 0 {
		return errors.New("offer GPUs: the node has none that can be offered")
	}
	return nil
}

// unlisted returns what the kubelet has not done yet.
func (p *Plugin) unlisted() error {
	for _, r := range p.offered.Resources {
		name := r.Name
		st := p.servers[name].Status()
		switch {
		case !st.Serving:
			return fmt.Errorf("serve %s: the socket is not open", name)
		case !p.cfg.Config.Register:
		case !st.Registered:
			return fmt.Errorf("register %s: the kubelet has not taken it yet", name)
		case !st.Listed:
			return fmt.Errorf("list %s: the kubelet has not asked for the devices yet", name)
		}
	}
	return nil
}
