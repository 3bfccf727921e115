package prepare

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// given is what the kubelet may have been told of CDI in the life of the
// process. The kubelet keeps an answer as long as the pod lives and hands it to
// the runtime again when a container is restarted, whatever the config is by
// then. So a name that was given stays good while the hardware is there.
type given struct {
	// last is the last config with a CDI strategy.
	last     config.Config
	ids      map[config.IDStrategy]bool
	classes  map[string]bool
	channels map[int]bool
}

// cdi reports whether any name was given.
func (g given) cdi() bool { return len(g.ids) > 0 }

// with returns g and what config c gives.
func (g given) with(c config.Config) given {
	if !c.CDI() {
		return g
	}
	out := given{last: c, ids: map[config.IDStrategy]bool{}, classes: map[string]bool{}, channels: map[int]bool{}}
	maps.Copy(out.ids, g.ids)
	maps.Copy(out.classes, g.classes)
	maps.Copy(out.channels, g.channels)
	out.ids[c.IDStrategy] = true
	for _, class := range wanted(c) {
		out.classes[class] = true
	}
	for _, n := range c.IMEX.Channels {
		out.channels[n] = true
	}
	return out
}

// namers returns how GPUs were named.
func (g given) namers() []cdi.Namer {
	var out []cdi.Namer
	if g.ids[config.IDIndex] {
		out = append(out, cdi.ByIndex)
	}
	if len(g.ids) > len(out) {
		out = append(out, cdi.ByUUID)
	}
	return out
}

// devices returns the CDI devices of a class that exist.
func (g given) devices(class string, x driverroot.Extras) []cdi.Device {
	if !g.classes[class] {
		return nil
	}
	if class == allocate.CDIClassIMEX {
		return cdi.Channels(x, slices.Sorted(maps.Keys(g.channels)))
	}
	return cdi.Whole(part(class, x))
}

// specs returns a function that writes the specs for the GPUs of a node, and
// returns those that work and that the specs do not have.
func (p *Preparer) specs(c config.Config, s scanned) func(*gpu.Node) (map[gpu.UUID]string, error) {
	names := p.given.with(c)
	root := names.last.CDIRoot
	if !names.cdi() {
		root = c.CDIRoot
	}
	dir := cdi.Dir{Path: root, Vendor: p.cfg.Vendor}
	return func(n *gpu.Node) (map[gpu.UUID]string, error) {
		switch {
		case s.err != nil:
			return nil, s.err
		case names.cdi():
			return p.write(dir, names, s, n)
		case !filepath.IsAbs(root):
			return nil, nil
		}
		// An earlier process has had another config.
		return nil, p.sync(dir, "")
	}
}

func (p *Preparer) write(dir cdi.Dir, names given, s scanned, n *gpu.Node) (map[gpu.UUID]string, error) {
	devices, missing := cdi.Devices(n.GPUs, s.content, names.namers()...)
	var unresolved map[gpu.UUID]string
	var errs []error
	for _, u := range missing {
		if unresolved == nil {
			unresolved = map[gpu.UUID]string{}
		}
		unresolved[u.UUID] = u.Reason
		errs = append(errs, u)
	}
	if len(devices) == 0 {
		if len(errs) > 0 {
			return nil, errors.Join(errs...)
		}
		// A spec without devices is none; one of GPUs that are gone misleads.
		return nil, p.sync(dir, s.content.Version)
	}
	options := func(class string) cdi.Options {
		return cdi.Options{Kind: p.cfg.Vendor + "/" + class, HookPath: names.last.HookPath, Features: s.features}
	}
	spec, err := cdi.Spec(s.content, devices, options(allocate.CDIClass))
	if err != nil {
		return nil, err
	}
	all := []*specs.Spec{spec}
	for _, class := range extraClasses() {
		devices := names.devices(class, s.extras)
		if len(devices) == 0 {
			continue
		}
		spec, err := cdi.BareSpec(devices, options(class))
		if err != nil {
			return nil, err
		}
		all = append(all, spec)
	}
	return unresolved, p.sync(dir, s.content.Version, all...)
}

// sync makes the folder hold these specs and no others.
func (p *Preparer) sync(dir cdi.Dir, driver string, all ...*specs.Spec) error {
	changed, err := dir.Sync(all...)
	if err != nil || !changed {
		return err
	}
	kinds := make([]string, 0, len(all))
	devices := 0
	for _, s := range all {
		kinds = append(kinds, s.Kind)
		devices += len(s.Devices)
	}
	if len(all) == 0 {
		p.cfg.Log.Info("cdi specs removed", "folder", dir.Path)
		return nil
	}
	p.cfg.Log.Info("cdi specs written", "folder", dir.Path, "kinds", kinds, "devices", devices, "driver", driver)
	return nil
}
