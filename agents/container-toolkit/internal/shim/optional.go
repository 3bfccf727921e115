package shim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/agents/container-toolkit/internal/generate"
	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/agents/container-toolkit/internal/request"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/driverroot"
)

// optional returns the devices of the optional hardware that the container asks for. A CDI spec
// describes the hardware, or the host's device nodes do. Images set the variables for every node,
// so hardware that the node lacks adds a warning to the plan, and no device.
func (p *Plan) optional(set *inject.Set, t inject.Target, cfg *toolconfig.Config) []inject.Device {
	var out []inject.Device
	for _, d := range p.Request.Optional() {
		found, err := set.Resolve([]request.Device{d})
		if err == nil {
			_, err = t.Edits(found)
		}
		if err != nil {
			found, err = onHost(d, cmp.Or(cfg.CLI.Root, "/"))
		}
		if err != nil {
			p.Warnings = append(p.Warnings, fmt.Sprintf("%s has no effect: %v", d.Asked, err))
		}
		out = append(out, found...)
	}
	return out
}

// onHost returns the device of optional hardware, made from the host's device nodes. root is the
// driver root. The error names the missing device nodes and the fix.
func onHost(d request.Device, root string) ([]inject.Device, error) {
	driver, err := driverroot.New(driverroot.Config{HostPath: root})
	if err != nil {
		return nil, err
	}
	mode := generate.Mode(strings.TrimPrefix(d.Kind, generate.Vendor+"/"))
	made, _, err := cdi.Specs(&driverroot.Content{Extras: driver.FindExtras()}, nil, generate.Options{}.Requests(mode)...)
	if err != nil {
		return nil, err
	}
	if len(made) == 0 {
		return nil, missingHardware(mode)
	}
	f := &inject.File{Path: "device nodes of the host", Spec: made[0]}
	i := slices.IndexFunc(made[0].Devices, func(s specs.Device) bool { return s.Name == cdi.All })
	return []inject.Device{{Asked: d.Asked, File: f, Name: cdi.All, Edits: &made[0].Devices[i].ContainerEdits}}, nil
}

// missingHardware returns the error for a node without the hardware of a mode.
func missingHardware(m generate.Mode) error {
	switch m {
	case generate.GDRCopy:
		return errors.New("the host has no device node /dev/gdrdrv: load the kernel module gdrdrv")
	case generate.GDS:
		return errors.New("the host has no device node /dev/nvidia-fs*: load the kernel module nvidia-fs")
	case generate.MOFED:
		return errors.New("the host has no device node /dev/infiniband/uverbs*: load the driver of the network adapter")
	default:
		return errors.New("the host has no device node /dev/nvidia-nvswitch*: it has no NVSwitch, or its driver is not loaded")
	}
}
