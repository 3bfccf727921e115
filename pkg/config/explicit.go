package config

import (
	"errors"
	"path/filepath"
	"slices"
	"time"
)

// Explicit is what somebody has set, on the command line and in the environment
// or in a config file: what is nil was left open.
type Explicit struct {
	MIGStrategy         *MIGStrategy
	FailOnInitError     *bool
	DriverRoot          *string
	DriverRootCtrPath   *string
	DevRoot             *string
	ListStrategies      []ListStrategy
	IDStrategy          *IDStrategy
	PassDeviceSpecs     *bool
	CDIAnnotationPrefix *string
	HookPath            *string
	MPSRoot             *string
	Policy              *Policy
	Discovery           *Discovery
	GDS                 *bool
	MOFED               *bool
	GDRCopy             *bool
	// IMEXChannels is empty, and not nil, for no channels.
	IMEXChannels []int
	IMEXRequired *bool

	OneShot     *bool
	NoTimestamp *bool
	// SleepInterval is a time of Go, or "infinite".
	SleepInterval     *string
	OutputFile        *string
	MachineTypeFile   *string
	UseNodeFeatureAPI *bool

	// What follows has no key in the config file.

	// KubeletSocket is empty to serve without registering.
	KubeletSocket       *string
	CDIRoot             *string
	CDIFeatureFlags     []string
	CDIDisableHooks     []string
	DisableHealthChecks *string
	EnableHealthChecks  *string
	// ResourceConfig is sharing as the fork of NVIDIA's device plugin has it:
	// "<original>[:<new>[:<replicas>]],…".
	ResourceConfig *string
}

// over returns c with what e sets.
func (e Explicit) over(c Config) Config {
	set(&c.MIGStrategy, e.MIGStrategy)
	set(&c.FailOnInitError, e.FailOnInitError)
	setPath(&c.Driver.Root, e.DriverRoot)
	setPath(&c.Driver.CtrRoot, e.DriverRootCtrPath)
	setPath(&c.Driver.DevRoot, e.DevRoot)
	set(&c.IDStrategy, e.IDStrategy)
	set(&c.PassDeviceSpecs, e.PassDeviceSpecs)
	set(&c.CDIAnnotationPrefix, e.CDIAnnotationPrefix)
	setPath(&c.HookPath, e.HookPath)
	setPath(&c.MPSRoot, e.MPSRoot)
	set(&c.Policy, e.Policy)
	set(&c.Discovery, e.Discovery)
	set(&c.GDS, e.GDS)
	set(&c.MOFED, e.MOFED)
	set(&c.GDRCopy, e.GDRCopy)
	set(&c.IMEX.Required, e.IMEXRequired)
	setPath(&c.CDIRoot, e.CDIRoot)
	set(&c.HealthChecks.Disable, e.DisableHealthChecks)
	set(&c.HealthChecks.Enable, e.EnableHealthChecks)
	setList(&c.ListStrategies, e.ListStrategies)
	setList(&c.CDIFeatureFlags, e.CDIFeatureFlags)
	setList(&c.CDIDisableHooks, e.CDIDisableHooks)
	setList(&c.IMEX.Channels, e.IMEXChannels)
	if e.KubeletSocket != nil {
		c.Register = *e.KubeletSocket != ""
		if c.Register {
			setPath(&c.KubeletSocket, e.KubeletSocket)
		}
	}
	e.overGFD(&c.GFD)
	return c
}

func (e Explicit) overGFD(g *GFD) {
	set(&g.OneShot, e.OneShot)
	set(&g.NoTimestamp, e.NoTimestamp)
	setPath(&g.OutputFile, e.OutputFile)
	setPath(&g.MachineTypeFile, e.MachineTypeFile)
	if e.SleepInterval != nil {
		g.SleepInterval, _ = parseInterval(*e.SleepInterval) // it has been checked
	}
	// Whoever sets one of both means that output; an API that is switched off
	// leaves the file, as it does in GPU Feature Discovery.
	switch {
	case e.UseNodeFeatureAPI != nil && *e.UseNodeFeatureAPI:
		g.Output = OutputNodeFeature
	case e.UseNodeFeatureAPI != nil || e.OutputFile != nil && g.Output == OutputUnset:
		g.Output = OutputFile
	}
}

const intervalAllowed = "a time above 0, like 60s, or infinite"

// parseInterval reads a time; infinite is 0.
func parseInterval(text string) (time.Duration, bool) {
	if text == "infinite" {
		return 0, true
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d > 0
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func setPath(to, from *string) {
	if from != nil {
		*to = *from
	}
	if *to != "" {
		*to = filepath.Clean(*to)
	}
}

// setList takes each entry once, so that nothing is handed out twice.
func setList[T comparable](to *[]T, from []T) {
	if from == nil {
		return
	}
	*to = nil
	for _, v := range from {
		if !slices.Contains(*to, v) {
			*to = append(*to, v)
		}
	}
}

// check reports each value that no flag can have.
func (e Explicit) check() error {
	errs := []error{
		words("mig-strategy", list(e.MIGStrategy), migStrategies()),
		words("device-list-strategy", e.ListStrategies, listStrategies()),
		words("device-id-strategy", list(e.IDStrategy), idStrategies()),
		words("shared-devices-allocation-policy", list(e.Policy), policies()),
		words("cdi-feature-flags", e.CDIFeatureFlags, featureFlags()),
		words("cdi-disable-hooks", e.CDIDisableHooks, hooks()),
		e.checkDiscovery(),
	}
	if e.ListStrategies != nil && len(e.ListStrategies) == 0 {
		errs = append(errs, badFlag("device-list-strategy", "", "one or more of "+oneOf(listStrategies())))
	}
	if len(e.IMEXChannels) > 0 && !slices.Equal(e.IMEXChannels, []int{0}) {
		errs = append(errs, badFlag("imex-channel-ids", join(e.IMEXChannels), imexAllowed))
	}
	if e.SleepInterval != nil {
		if _, ok := parseInterval(*e.SleepInterval); !ok {
			errs = append(errs, badFlag("sleep-interval", *e.SleepInterval, intervalAllowed))
		}
	}
	for _, p := range []struct {
		flag string
		path *string
	}{
		{"output-file", e.OutputFile},
		{"machine-type-file", e.MachineTypeFile},
		{"kubelet-socket", e.KubeletSocket},
		{"nvidia-cdi-hook-path", e.HookPath},
		{"mps-root", e.MPSRoot},
	} {
		if p.path != nil && *p.path != "" && !filepath.IsAbs(*p.path) {
			errs = append(errs, badFlag(p.flag, *p.path, "an absolute path"))
		}
	}
	return errors.Join(errs...)
}

func (e Explicit) checkDiscovery() error {
	if e.Discovery != nil && *e.Discovery == discoveryTegra {
		return badFlag("device-discovery-strategy", discoveryTegra, oneOf(discoveries())+": "+noTegra)
	}
	return words("device-discovery-strategy", list(e.Discovery), discoveries())
}

func list[T any](v *T) []T {
	if v == nil {
		return nil
	}
	return []T{*v}
}
