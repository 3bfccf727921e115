package resource

import (
	"slices"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
)

// name sets the resource of each unit, and omits units without one: units that the kubelet could
// not identify, and GPUs in MIG mode that are not divided.
func (d *derivation) name(units []*unit) []*unit {
	return slices.DeleteFunc(units, func(u *unit) bool {
		empty := u.mig == nil && isDivided(u.gpu, d.config.MIGStrategy)
		switch {
		case u.uuid() == "":
			d.omit(u, cause.DeviceFault, "it has no UUID")
			return true
		case empty:
			d.omit(u, cause.DeviceMIG, "its MIG mode is on and it has no MIG devices:"+
				" create some (nvidia-smi mig -i %s -cgi PROFILE -C) or turn the mode off (nvidia-smi -i %[1]s -mig 0)", u.gpu.Selector())
			return true
		}
		u.resource = d.resource(u)
		if u.resource == "" {
			d.omit(u, cause.DeviceFault, "its MIG profile is not known")
			return true
		}
		return false
	})
}

// noteWhole adds a note for each GPU that is advertised although its MIG mode is on.
func (d *derivation) noteWhole(units []*unit) {
	for _, u := range units {
		if u.wholeInMIGMode() {
			d.addNote("GPU %d is advertised as a whole although its MIG mode is on, so programs find no device on it:"+
				" set migStrategy to single or mixed, or turn the mode off (nvidia-smi -i %s -mig 0)", u.gpu.Index, u.gpu.Selector())
		}
	}
}

// resource returns the name of the first matching pattern, or otherwise the name by the MIG
// strategy. It is empty if the strategy names a MIG device by its profile and the profile is
// unknown.
func (d *derivation) resource(u *unit) string {
	r := d.config.Resources
	if u.mig == nil {
		return nameFor(r.GPUs, GPU, u.gpuTexts)
	}
	other := GPU
	if d.config.MIGStrategy == config.MIGStrategyMixed {
		other = config.MIGResource(u.mig.Profile)
	}
	return nameFor(r.MIG, other, u.migTexts)
}

func nameFor(patterns []config.Pattern, other string, texts []string) string {
	for _, p := range patterns {
		if matches(p.Pattern, texts) {
			return p.Name
		}
	}
	return other
}
