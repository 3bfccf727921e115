package devnode

import (
	"cmp"
	"errors"
	"slices"
)

// Config has the paths of a driver's device nodes, as this process sees them.
type Config struct {
	// Proc is the host's /proc.
	Proc string
	// Dev is the folder of the nodes.
	Dev string
	// HostDev is the folder of the nodes on the host. Links lead to this folder. Default: Dev.
	HostDev string
	// Char is the host's /dev/char. If empty, no links are made.
	Char string
}

// Keep makes the nodes of the loaded driver that are missing or have a wrong number, and the links
// to all of its nodes. It returns the changes, which are empty if nothing was missing or wrong.
func Keep(cfg Config) (Plan, error) {
	plan, err := Missing(cfg)
	return plan, errors.Join(err, plan.Apply())
}

// Left returns an error with the missing or wrong nodes that Keep must not make, because the driver
// forbids it (see the function Left).
func (cfg Config) Left() error {
	driver := Driver(cfg.Proc)
	// Keep has already returned the errors of Control and GPUs.
	wanted, _ := driver.Control()
	gpus, _ := driver.GPUs()
	return Left(cfg.Dev, append(wanted, gpus...))
}

// Missing returns the changes that Keep would make.
func Missing(cfg Config) (Plan, error) {
	driver := Driver(cfg.Proc)
	wanted, controlErr := driver.Control()
	gpus, gpusErr := driver.GPUs()
	wanted = append(wanted, gpus...)
	plan, nodesErr := Nodes(cfg.Dev, wanted)
	errs := []error{controlErr, nodesErr}
	// If the driver is not loaded, both calls fail. One error is enough.
	if controlErr == nil {
		errs = append(errs, gpusErr)
	}
	if cfg.Char == "" {
		return plan, errors.Join(errs...)
	}
	existing, err := Existing(cfg.Dev)
	// A node that will be replaced gets the link for its new number.
	made := slices.DeleteFunc(slices.Clone(wanted), func(n Node) bool { return n.Fixed })
	links, linksErr := Links(cmp.Or(cfg.HostDev, cfg.Dev), cfg.Char, Once(slices.Concat(made, existing)))
	return append(plan, links...), errors.Join(append(errs, err, linksErr)...)
}
