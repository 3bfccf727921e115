package config

import (
	"errors"
	"fmt"
	"slices"

	"outrigger.dev/pkg/config/strict"
)

// Load returns the Config of a process. flags has the values of its flags and environment, data the
// content of its config file, and name the name of the file for errors. Without a file, data is
// empty. Flags take precedence over variables, variables over the file, and the file over the
// defaults. Load reports all errors at once and then returns no Config. Settings without effect are
// in Config.Warnings: files for NVIDIA's programs are accepted if this does no harm.
//
// Load is a pure function, so that a process can check a new content of its file before it replaces
// its config.
func Load(flags Explicit, data []byte, name string) (Config, error) {
	var found findings
	set := flags.settings(&found)
	doc := strict.Parse(name, data)
	base, options := defaults(Options())
	f := read(name, doc, options)

	c := Default()
	set.apply(&c, base)
	f.settings.apply(&c, options)
	set.apply(&c, options)
	c.Sharing, c.Resources, c.Filter, c.Health = f.sharing, f.resources, f.filter, f.health
	isSet := func(option string) bool {
		_, flag := set[option]
		_, file := f.settings[option]
		return flag || file
	}
	// A file name selects the file as output, unless useNodeFeatureAPI decides.
	if isSet("output-file") && c.GFD.Output == OutputUnset {
		c.GFD.Output = OutputFile
	}
	fork, err := resourceConfigShares(flags["resource-config"], f.resources, &found)
	if err := errors.Join(append(found.errs, doc.Err(), err)...); err != nil {
		return Config{}, err
	}
	c.Warnings = append(found.warnings, doc.Warnings()...)
	if len(fork) > 0 {
		c.Sharing = Sharing{Strategy: SharingTimeSlicing, Shares: fork}
		if !isSet("shared-devices-allocation-policy") {
			c.Policy = PolicySpread
		}
		if f.sharing.Strategy != SharingNone {
			err = fmt.Errorf("%s: flag --resource-config is set too, and both configure sharing: remove one of them", f.sharingAt)
		}
	}
	if err := errors.Join(err, c.check()); err != nil {
		return Config{}, err
	}
	return c, nil
}

// resourceConfigShares returns the shares of --resource-config.
func resourceConfigShares(values []string, r Resources, found *findings) ([]Share, error) {
	if len(values) == 0 {
		return nil, nil
	}
	return parseResourceConfig(values[0], r, found)
}

// check rejects values that are valid alone but not in combination.
func (c Config) check() error {
	var errs []error
	if slices.Contains(c.ListStrategies, ListCDIAnnotations) && c.CDIAnnotationPrefix == "" {
		errs = append(errs, badFlag("cdi-annotation-prefix", "", "a prefix like cdi.k8s.io/ with device-list-strategy cdi-annotations"))
	}
	if c.CDI() && c.CDIRoot == "" {
		errs = append(errs, badFlag("cdi-root", "", "an absolute path with a CDI device-list-strategy"))
	}
	if c.Sharing.Strategy == SharingMPS && c.MPSRoot == "" {
		errs = append(errs, badFlag("mps-root", "", "an absolute path with sharing.mps: the folder on the host for the pipes of its daemons"))
	}
	return errors.Join(errs...)
}
