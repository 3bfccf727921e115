package plugin

import (
	"context"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/agents/device-plugin/internal/server"
	"outrigger.dev/pkg/resource"
)

// publish passes each resource to its server, and withdraws the resources that are not in
// the State.
func (p *Plugin) publish(ctx context.Context) {
	if p.state.Node == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	opts := p.options()
	named := map[string]bool{}
	for _, r := range p.state.Set.Resources {
		named[r.Name] = true
		p.serve(ctx, r, opts)
	}
	for name, s := range p.servers {
		if !named[name] {
			s.Withdraw()
		}
	}
}

// serve passes the resource to its server. It starts a server if there is none, and publishes
// to it first, so that the first list is complete. If a server is about to end, the next one
// starts after its end.
func (p *Plugin) serve(ctx context.Context, r resource.Resource, opts allocate.Options) {
	if s, ok := p.servers[r.Name]; ok {
		s.Publish(r, opts)
		return
	}
	s := server.New(server.Config{
		Resource:      r.Name,
		KubeletSocket: p.cfg.KubeletSocket,
		Register:      p.cfg.Register,
		Recorder:      p.cfg.Recorder,
		WaitLinks:     p.waitLinks,
		Changed:       p.loop.Wake,
		Log:           p.log,
	})
	s.Publish(r, opts)
	p.servers[r.Name] = s
	p.group.Go(func() error {
		err := s.Run(ctx)
		p.mu.Lock()
		delete(p.servers, r.Name)
		p.mu.Unlock()
		p.loop.Wake()
		return err
	})
}

func (p *Plugin) options() allocate.Options {
	c, prepared := p.state.Config, p.state.Prepared
	return allocate.Options{
		ListStrategies:      c.ListStrategies,
		IDStrategy:          c.IDStrategy,
		CDIAnnotationPrefix: c.CDIAnnotationPrefix,
		PassDeviceSpecs:     c.PassDeviceSpecs,
		OnlyCDI:             c.OnlyCDI(),
		DevRoot:             prepared.DevRoot,
		ControlNodes:        prepared.ControlNodes,
		Extras: allocate.Extras{
			GDS: c.GDS, MOFED: c.MOFED, GDRCopy: c.GDRCopy,
			IMEXChannels: prepared.IMEXChannels, CDIClasses: prepared.CDIClasses,
		},
		MPSRoot:  c.MPSRoot,
		Policy:   c.Policy,
		Topology: p.topology,
	}
}
