package prepare

import (
	"maps"
	"path/filepath"
	"slices"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// usedNames has the CDI names that answers to the kubelet may contain since the start of the
// process. The kubelet keeps an answer until the pod ends, and passes it to the runtime again
// when a container restarts, even if the config has changed. So a used name stays valid while
// its hardware is present.
type usedNames struct {
	// last is the last config with a CDI strategy.
	last     config.Config
	ids      map[config.IDStrategy]bool
	classes  map[string]bool
	channels map[int]bool
}

// cdi reports whether any name was used.
func (g usedNames) cdi() bool { return len(g.ids) > 0 }

// with returns g and the names that the config c can use.
func (g usedNames) with(c config.Config) usedNames {
	if !c.CDI() {
		return g
	}
	out := usedNames{last: c, ids: map[config.IDStrategy]bool{}, classes: map[string]bool{}, channels: map[int]bool{}}
	maps.Copy(out.ids, g.ids)
	maps.Copy(out.classes, g.classes)
	maps.Copy(out.channels, g.channels)
	out.ids[c.IDStrategy] = true
	for _, class := range enabledClasses(c) {
		out.classes[class] = true
	}
	for _, n := range c.IMEX.Channels {
		out.channels[n] = true
	}
	return out
}

// gpus returns the GPUs and MIG devices under the used names.
func (g usedNames) gpus(c *driverroot.Content, gpus []gpu.GPU) ([]cdi.Device, []cdi.Unresolved) {
	return cdi.Devices(gpus, c, g.namers()...)
}

func (g usedNames) namers() []cdi.Namer {
	var names []cdi.Namer
	if g.ids[config.IDIndex] {
		names = append(names, g.index)
	}
	if g.uuids() {
		names = append(names, cdi.ByUUID)
	}
	return names
}

func (g usedNames) uuids() bool { return len(g.ids) > 1 || !g.ids[config.IDIndex] }

// index names a device by its index. If the index named another device before the last boot, it
// uses the UUID instead, because the kubelet may pass the earlier name to a container that it
// restarts.
func (g usedNames) index(of *gpu.GPU, m *gpu.MIGDevice) string {
	switch {
	case !of.Ambiguous(of.Index):
		return cdi.ByIndex(of, m)
	case g.uuids():
		return ""
	default:
		return cdi.ByUUID(of, m)
	}
}

// devices returns the existing CDI devices of a class of optional hardware.
func (g usedNames) devices(class string, x driverroot.Extras) []cdi.Device {
	if !g.classes[class] {
		return nil
	}
	if class == allocate.CDIClassIMEX {
		return cdi.Channels(x, slices.Sorted(maps.Keys(g.channels)))
	}
	return cdi.Whole(extraOf(class, x))
}

// Withdraw removes the CDI specs from a folder, if one is set. Running containers keep their
// GPUs.
func (p *Preparer) Withdraw(folder string) error {
	if !filepath.IsAbs(folder) {
		return nil
	}
	_, err := p.specs.Publish(folder, nil)
	return err
}

// publish writes the CDI specs for the GPUs of a node. It returns the working devices that the
// specs do not contain, with the reason.
func (p *Preparer) publish(c config.Config, s scanned, n *gpu.Node) (map[gpu.UUID]string, error) {
	names, folder := p.used.with(c), c.CDIRoot
	var requests []cdi.Request
	switch {
	case s.err != nil:
		return nil, s.err
	case names.cdi():
		folder, requests = names.last.CDIRoot, p.requests(names, s)
	case !filepath.IsAbs(folder):
		return nil, nil
	}
	// Without requests, this removes the specs of a process with another config.
	missing, err := p.specs.Publish(folder, n.GPUs, requests...)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	unresolved := map[gpu.UUID]string{}
	for _, u := range missing {
		unresolved[u.UUID] = u.Reason
	}
	return unresolved, nil
}

// requests returns the requests for the CDI spec of the GPUs, and for one spec per class of
// optional hardware.
func (p *Preparer) requests(names usedNames, s scanned) []cdi.Request {
	options := s.options
	options.Kind = p.kind(allocate.CDIClass)
	out := []cdi.Request{{Options: options, Devices: names.gpus}}
	options.Bare = true
	for _, class := range extraClasses() {
		options.Kind = p.kind(class)
		out = append(out, cdi.Request{
			Options: options,
			Devices: func(c *driverroot.Content, gpus []gpu.GPU) ([]cdi.Device, []cdi.Unresolved) {
				if len(gpus) == 0 { // the hardware is useful only with a GPU
					return nil, nil
				}
				return names.devices(class, c.Extras), nil
			},
		})
	}
	return out
}

func (p *Preparer) kind(class string) string { return p.cfg.Vendor + "/" + class }
