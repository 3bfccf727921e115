package prepare

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/driverroot"
)

// extraClasses returns the classes of optional hardware, in the order of NVIDIA's device
// plugin.
func extraClasses() []string {
	return []string{allocate.CDIClassIMEX, allocate.CDIClassGDRCopy, allocate.CDIClassGDS, allocate.CDIClassMOFED}
}

// enabledClasses returns the classes that the config enables.
func enabledClasses(c config.Config) []string {
	on := map[string]bool{
		allocate.CDIClassIMEX:    len(c.IMEX.Channels) > 0,
		allocate.CDIClassGDRCopy: c.GDRCopy,
		allocate.CDIClassGDS:     c.GDS,
		allocate.CDIClassMOFED:   c.MOFED,
	}
	return slices.DeleteFunc(extraClasses(), func(class string) bool { return !on[class] })
}

// foundClasses returns the enabled classes whose hardware exists. These have a CDI spec.
func foundClasses(c config.Config, x driverroot.Extras) []string {
	var out []string
	for _, class := range enabledClasses(c) {
		if class == allocate.CDIClassIMEX && len(channels(c, x)) > 0 || extraOf(class, x).Found() {
			out = append(out, class)
		}
	}
	return out
}

// extraOf returns the hardware of a class other than the IMEX channels.
func extraOf(class string, x driverroot.Extras) driverroot.Part {
	switch class {
	case allocate.CDIClassGDRCopy:
		return x.GDRCopy
	case allocate.CDIClassGDS:
		return x.GDS
	case allocate.CDIClassMOFED:
		return x.MOFED
	}
	return driverroot.Part{}
}

// channels returns the IMEX channels of the config that exist.
func channels(c config.Config, x driverroot.Extras) []int {
	var out []int
	for _, n := range c.IMEX.Channels {
		if _, ok := x.IMEX[n]; ok {
			out = append(out, n)
		}
	}
	return out
}

// prepareExtras returns the optional hardware that the config enables, and reports missing
// hardware.
func (p *Preparer) prepareExtras(c config.Config, x driverroot.Extras) (inventory.Prepared, error) {
	for _, class := range extraClasses() {
		if class != allocate.CDIClassIMEX {
			p.report(class, p.missingExtra(class, c, x))
		}
	}
	err := p.missingChannels(c, x)
	if c.IMEX.Required && err != nil {
		p.report(allocate.CDIClassIMEX, nil)
		return inventory.Prepared{}, fmt.Errorf("%w; or unset imex-required", err)
	}
	p.report(allocate.CDIClassIMEX, err)
	return inventory.Prepared{IMEXChannels: channels(c, x)}, nil
}

// missingExtra returns an error if the config enables the class and its hardware is missing.
func (p *Preparer) missingExtra(class string, c config.Config, x driverroot.Extras) error {
	if !slices.Contains(enabledClasses(c), class) || extraOf(class, x).Found() {
		return nil
	}
	switch class {
	case allocate.CDIClassGDRCopy:
		return p.missingNode("gdrcopy-enabled", "gdrdrv", "load the kernel module gdrdrv, or unset gdrcopy-enabled")
	case allocate.CDIClassGDS:
		return p.missingNode("gds-enabled", "nvidia-fs*", "load the kernel module nvidia-fs, or unset gds-enabled")
	default:
		return p.missingNode("mofed-enabled", "infiniband/uverbs*", "load the drivers of the network adapters, or unset mofed-enabled")
	}
}

func (p *Preparer) missingNode(flag, node, fix string) error {
	dev := path.Join(p.cfg.Root.DevRoot(), "dev")
	in := dev
	if dev != "/dev" {
		in += " and /dev"
	}
	return fmt.Errorf("find the devices for %s: there is no device node %s in %s: %s", flag, node, in, fix)
}

func (p *Preparer) missingChannels(c config.Config, x driverroot.Extras) error {
	var errs []error
	for _, n := range c.IMEX.Channels {
		if _, ok := x.IMEX[n]; ok {
			continue
		}
		node := path.Join(p.cfg.Root.DevRoot(), "dev", "nvidia-caps-imex-channels", fmt.Sprintf("channel%d", n))
		errs = append(errs, fmt.Errorf("find IMEX channel %d: %s is not a character device: "+
			"load the kernel module nvidia with NVreg_CreateImexChannel0=1, or make the node", n, node))
	}
	return errors.Join(errs...)
}
