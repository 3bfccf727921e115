package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	noTegra     = "the integrated GPUs of Tegra have no NVML, from which the plugin knows its GPUs"
	imexAllowed = "empty or 0: it is the only channel that containers of a node share"
)

// Load returns what holds for a plugin whose flags and environment set flags,
// and whose config file, which errors call name, has the content file: a flag
// goes before the file, and that before the defaults. Without a file it is
// empty. All that is wrong is told at once; then there is no Config.
//
// Load is a pure function, so that a plugin can find out what another content
// of its file would mean before it lets go of what it has.
func Load(flags Explicit, file []byte, name string) (Config, error) {
	f, fileErr := parse(name, file)
	errs := []error{flags.check(), fileErr}
	fork, err := forked(flags.ResourceConfig, f.resources)
	if err := errors.Join(append(errs, err)...); err != nil {
		return Config{}, err
	}
	c := flags.over(f.over(Default()))
	c.Sharing, c.Resources, c.Filter = f.sharing, f.resources, f.filter
	if len(fork) > 0 {
		c.Sharing = Sharing{Strategy: SharingTimeSlicing, Shares: fork}
		if flags.Policy == nil && f.Policy == nil {
			c.Policy = PolicySpread
		}
		if f.sharing.Strategy != SharingNone {
			err = fmt.Errorf("%s: flag --resource-config is set too, and both say how GPUs are shared: remove one of them", f.sharingAt)
		}
	}
	if err := errors.Join(err, c.check()); err != nil {
		return Config{}, err
	}
	return c, nil
}

// forked returns the shares of --resource-config.
func forked(value *string, r Resources) ([]Share, error) {
	if value == nil {
		return nil, nil
	}
	return parseResourceConfig(*value, r)
}

// check reports what is wrong with values that are right one by one.
func (c Config) check() error {
	var errs []error
	if slices.Contains(c.ListStrategies, ListCDIAnnotations) && c.CDIAnnotationPrefix == "" {
		errs = append(errs, badFlag("cdi-annotation-prefix", "", "a prefix like cdi.k8s.io/ with device-list-strategy cdi-annotations"))
	}
	if c.CDI() && !filepath.IsAbs(c.CDIRoot) {
		errs = append(errs, badFlag("cdi-root", c.CDIRoot, "an absolute path with a CDI device-list-strategy"))
	}
	if c.Sharing.Strategy == SharingMPS && c.MPSRoot == "" {
		errs = append(errs, badFlag("mps-root", "", "an absolute path with sharing.mps: the folder on the host for the pipes of its daemons"))
	}
	return errors.Join(errs...)
}

func join(numbers []int) string {
	out := make([]string, len(numbers))
	for i, n := range numbers {
		out[i] = strconv.Itoa(n)
	}
	return strings.Join(out, ",")
}
