package cdi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Features change the content of specs. The zero value selects the defaults.
type Features struct {
	// NoAdditionalGIDs does not add the container's user to the groups that own device nodes. Set
	// it for runtimes that read only CDI versions before 0.7.0, on nodes whose device nodes are not
	// accessible to all users.
	NoAdditionalGIDs bool
	// NoSockets omits the sockets of the driver's daemons and the folder of the MPS
	// pipes.
	NoSockets bool
	// DisabledHooks names the hooks to omit. All stands for every hook.
	DisabledHooks []string
}

// feature is one of the feature flags of NVIDIA's container toolkit.
type feature struct {
	set func(*Features)
	// void is the reason why the flag has no effect, empty if it has an effect.
	void string
}

func features() map[string]feature {
	return map[string]feature{
		"no-additional-gids-for-device-nodes": {set: func(f *Features) { f.NoAdditionalGIDs = true }},
		"disable-ipc-discoverer":              {set: func(f *Features) { f.NoSockets = true }},
		"enable-explicit-driver-libraries":    {void: "a spec always lists the driver's libraries one by one"},
		"disable-nvsandboxutils":              {void: "libnvidia-sandboxutils is never used"},
		"disable-nvsandbox-utils":             {void: "libnvidia-sandboxutils is never used"},
		"disable-multiple-csv-devices":        {void: "it concerns Tegra, for which no spec is written"},
		"enable-coherent-annotations":         {void: "no annotation is written: nothing reads it, and it needs a newer CDI reader"},
	}
}

// ParseFeatures parses the values of cdi-feature-flags and cdi-disable-hooks, as NVIDIA's device
// plugin defines them. The result void has the valid values without effect, each with the reason.
// The error names every unknown value and lists the known values.
func ParseFeatures(flags, disabledHooks []string) (f Features, void []string, err error) {
	known, errs := features(), []error(nil)
	for _, name := range flags {
		flag, ok := known[name]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("check cdi-feature-flags: unknown value %q: use any of %s",
				name, strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
		case flag.set != nil:
			flag.set(&f)
		default:
			void = append(void, name+": "+flag.void)
		}
	}
	hooks := []string{All, hookChmod, hookLinks, hookDeviceNodes, hookCompat, hookProfile, hookCache}
	for _, name := range disabledHooks {
		switch {
		case !slices.Contains(hooks, name):
			errs = append(errs, fmt.Errorf("check cdi-disable-hooks: unknown value %q: use any of %s", name, strings.Join(hooks, ", ")))
		case name == hookChmod:
			void = append(void, name+": a spec never has this hook")
		default:
			f.DisabledHooks = append(f.DisabledHooks, name)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Features{}, nil, err
	}
	return f, void, nil
}
