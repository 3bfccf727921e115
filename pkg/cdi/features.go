package cdi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Features change what a spec has by default. The zero value changes nothing.
type Features struct {
	// NoAdditionalGIDs keeps the container's user out of the groups that own
	// device nodes. CDI readers older than version 0.7.0 need that where nodes are
	// not open to everybody.
	NoAdditionalGIDs bool
	// NoSockets leaves out the sockets of the driver's daemons and the folder of
	// MPS pipes.
	NoSockets bool
	// DisabledHooks names hooks to leave out; All stands for every hook.
	DisabledHooks []string
}

// feature is one of the feature flags of NVIDIA's container toolkit.
type feature struct {
	set func(*Features)
	// void says why the flag has no effect; empty for one that has.
	void string
}

func features() map[string]feature {
	return map[string]feature{
		"no-additional-gids-for-device-nodes": {set: func(f *Features) { f.NoAdditionalGIDs = true }},
		"disable-ipc-discoverer":              {set: func(f *Features) { f.NoSockets = true }},
		"enable-explicit-driver-libraries":    {void: "a spec always lists the driver's libraries one by one"},
		"disable-nvsandboxutils":              {void: "libnvidia-sandboxutils is never used"},
		"disable-multiple-csv-devices":        {void: "it concerns Tegra, for which no spec is written"},
		"enable-coherent-annotations":         {void: "no annotation is written: nothing reads it, and it needs a newer CDI reader"},
	}
}

// ParseFeatures reads the values of cdi-feature-flags and cdi-disable-hooks as
// NVIDIA's device plugin defines them. Void lists, with the reason, the flags that
// are valid and have no effect. The error names every unknown value and the known
// ones.
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
