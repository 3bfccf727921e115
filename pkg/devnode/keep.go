package devnode

import (
	"cmp"
	"errors"
	"slices"
)

// Config says where the nodes of a driver are, as this process sees it.
type Config struct {
	// Proc is the host's /proc.
	Proc string
	// Dev is the folder of the nodes.
	Dev string
	// HostDev is that folder on the host, where links lead; without it, Dev.
	HostDev string
	// Char is the host's /dev/char; without it, no link is made.
	Char string
}

// Keep makes the nodes of the loaded driver that are missing or have another number, and
// the links to all of its nodes. It returns what it did, nothing if all was there.
func Keep(cfg Config) (Plan, error) {
	plan, err := Missing(cfg)
	return plan, errors.Join(err, plan.Apply())
}

// Left returns an error that names the nodes that Keep may not make, as the function Left does.
func (cfg Config) Left() error {
	driver := Driver(cfg.Proc)
	// Keep returns these errors.
	wanted, _ := driver.Control()
	gpus, _ := driver.GPUs()
	return Left(cfg.Dev, append(wanted, gpus...))
}

// Missing returns what Keep does.
func Missing(cfg Config) (Plan, error) {
	driver := Driver(cfg.Proc)
	wanted, controlErr := driver.Control()
	gpus, gpusErr := driver.GPUs()
	wanted = append(wanted, gpus...)
	plan, nodesErr := Nodes(cfg.Dev, wanted)
	errs := []error{controlErr, nodesErr}
	// Both find out that the driver is not loaded.
	if controlErr == nil {
		errs = append(errs, gpusErr)
	}
	if cfg.Char == "" {
		return plan, errors.Join(errs...)
	}
	existing, err := Existing(cfg.Dev)
	// A node that will be replaced is linked as it will be.
	made := slices.DeleteFunc(slices.Clone(wanted), func(n Node) bool { return n.Fixed })
	links, linksErr := Links(cmp.Or(cfg.HostDev, cfg.Dev), cfg.Char, Once(slices.Concat(made, existing)))
	return append(plan, links...), errors.Join(append(errs, err, linksErr)...)
}
