// Package config holds what a user can choose about the device plugin, and
// checks it. It knows nothing of flags: internal/app fills it in.
package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// ListStrategy is a way to tell the container runtime which GPUs a container
// gets.
type ListStrategy string

// The list strategies.
const (
	ListEnvvar         ListStrategy = "envvar"
	ListCDICRI         ListStrategy = "cdi-cri"
	ListCDIAnnotations ListStrategy = "cdi-annotations"
	ListVolumeMounts   ListStrategy = "volume-mounts"
)

// IDStrategy is how GPUs are named to the container runtime.
type IDStrategy string

// The id strategies.
const (
	IDUUID  IDStrategy = "uuid"
	IDIndex IDStrategy = "index"
)

// MIGStrategy is how MIG devices are offered.
type MIGStrategy string

// The MIG strategies.
const (
	// MIGStrategyNone offers whole GPUs.
	MIGStrategyNone MIGStrategy = "none"
	// MIGStrategySingle offers MIG devices, which are all of one kind, under the
	// name of whole GPUs.
	MIGStrategySingle MIGStrategy = "single"
	// MIGStrategyMixed offers MIG devices under the names of their profiles.
	MIGStrategyMixed MIGStrategy = "mixed"
)

// Policy is how devices are chosen for a container where hardware is shared.
type Policy string

// The policies.
const (
	// PolicyDistributed takes from the least used hardware.
	PolicyDistributed Policy = "distributed"
	// PolicyPacked takes from the most used hardware.
	PolicyPacked Policy = "packed"
	// PolicySpread takes different hardware for each device of a request while
	// there is any, and of that the least used.
	PolicySpread Policy = "spread"
)

// Config is what a user can choose.
type Config struct {
	MIGStrategy MIGStrategy
	Sharing     Sharing
	Resources   Resources
	Filter      Filter
	// Policy chooses among devices that are shared, or parts of a GPU.
	Policy Policy
	// GDS, MOFED and GDRCopy give their devices to every container with a GPU.
	GDS, MOFED, GDRCopy bool
	IMEX                IMEX
	// MPSRoot is the folder on the host for the pipes and logs of MPS daemons.
	MPSRoot string
	// ListStrategies has at least one entry.
	ListStrategies      []ListStrategy
	IDStrategy          IDStrategy
	CDIAnnotationPrefix string
	// PassDeviceSpecs adds the device nodes to the answer, unless only CDI
	// strategies are chosen.
	PassDeviceSpecs bool
	// KubeletSocket is where the kubelet takes registrations; the plugin's own
	// sockets lie beside it.
	KubeletSocket string
	// Register is false for a plugin that serves without registering.
	Register bool
	// FailOnInitError ends the process when the first look at the node fails.
	FailOnInitError bool
	// CDIRoot is the folder for CDI specs.
	CDIRoot string
	// HookPath is nvidia-cdi-hook on the host, empty for specs without hooks.
	HookPath string
}

// IMEX says which IMEX channels containers with a GPU get.
type IMEX struct {
	// Channels is empty or {0}.
	Channels []int
	// Required makes the start fail without the channels.
	Required bool
}

// CDI reports whether a CDI strategy is chosen.
func (c Config) CDI() bool {
	return slices.ContainsFunc(c.ListStrategies, ListStrategy.cdi)
}

// OnlyCDI reports whether all chosen strategies are CDI strategies.
func (c Config) OnlyCDI() bool {
	return !slices.ContainsFunc(c.ListStrategies, func(s ListStrategy) bool { return !s.cdi() })
}

func (s ListStrategy) cdi() bool { return s == ListCDICRI || s == ListCDIAnnotations }

// Validate reports everything that is wrong with c.
func (c Config) Validate() error {
	return errors.Join(c.checkMIG(), c.checkList(), c.checkID(), c.checkPrefix(), c.checkPaths())
}

func (c Config) checkMIG() error {
	switch c.MIGStrategy {
	case MIGStrategyNone:
		return nil
	case MIGStrategySingle, MIGStrategyMixed:
		return fmt.Errorf("check mig-strategy: %q is not built yet in this version: use %q", c.MIGStrategy, MIGStrategyNone)
	}
	return fmt.Errorf("check mig-strategy: unknown value %q: use %q", c.MIGStrategy, MIGStrategyNone)
}

func (c Config) checkList() error {
	if len(c.ListStrategies) == 0 {
		return fmt.Errorf("check device-list-strategy: no value: use one or more of %s", listStrategies())
	}
	var errs []error
	for _, s := range c.ListStrategies {
		switch s {
		case ListEnvvar, ListCDICRI, ListCDIAnnotations:
		case "volume-mounts":
			errs = append(errs, fmt.Errorf("check device-list-strategy: %q is not built yet in this version: use one or more of %s", s, listStrategies()))
		default:
			errs = append(errs, fmt.Errorf("check device-list-strategy: unknown value %q: use one or more of %s", s, listStrategies()))
		}
	}
	return errors.Join(errs...)
}

func listStrategies() string {
	return strings.Join([]string{string(ListEnvvar), string(ListCDICRI), string(ListCDIAnnotations)}, ", ")
}

func (c Config) checkID() error {
	if c.IDStrategy == IDUUID || c.IDStrategy == IDIndex {
		return nil
	}
	return fmt.Errorf("check device-id-strategy: unknown value %q: use %s or %s", c.IDStrategy, IDUUID, IDIndex)
}

func (c Config) checkPrefix() error {
	if slices.Contains(c.ListStrategies, ListCDIAnnotations) && c.CDIAnnotationPrefix == "" {
		return errors.New("check cdi-annotation-prefix: no value, and device-list-strategy cdi-annotations needs one: use cdi.k8s.io/")
	}
	return nil
}

func (c Config) checkPaths() error {
	var errs []error
	if !filepath.IsAbs(c.KubeletSocket) {
		errs = append(errs, fmt.Errorf("check kubelet-socket: %q is not an absolute path", c.KubeletSocket))
	}
	if c.HookPath != "" && !filepath.IsAbs(c.HookPath) {
		errs = append(errs, fmt.Errorf("check nvidia-cdi-hook-path: %q is not an absolute path", c.HookPath))
	}
	if c.CDI() && !filepath.IsAbs(c.CDIRoot) {
		errs = append(errs, fmt.Errorf("check cdi-root: %q is not an absolute path", c.CDIRoot))
	}
	return errors.Join(errs...)
}
