package devnode

import "errors"

// Config says where the nodes of a driver are, as this process sees it.
type Config struct {
	// Proc is the host's /proc.
	Proc string
	// Dev is the folder of the nodes.
	Dev string
	// Char is the host's /dev/char; without it, no link is made.
	Char string
}

// Keep makes the nodes of the loaded driver that are missing or have another number, and
// the links to all of its nodes. It returns what it did, nothing if all was there.
func Keep(cfg Config) (Plan, error) {
	driver := Driver(cfg.Proc)
	control, controlErr := driver.Control()
	gpus, gpusErr := driver.GPUs()
	done, nodesErr := Nodes(cfg.Dev, append(control, gpus...))
	errs := []error{controlErr, nodesErr, done.Apply()}
	// Both find out that the driver is not loaded.
	if controlErr == nil {
		errs = append(errs, gpusErr)
	}
	if cfg.Char == "" {
		return done, errors.Join(errs...)
	}
	existing, err := Existing(cfg.Dev)
	links, linksErr := Links(cfg.Dev, cfg.Char, existing)
	return append(done, links...), errors.Join(append(errs, err, linksErr, links.Apply())...)
}
