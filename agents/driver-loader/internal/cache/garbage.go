package cache

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"outrigger.dev/agents/driver-loader/internal/staging"
)

// Needed describes the sets to keep.
type Needed struct {
	// Running is the release of the running kernel, and Installed lists the releases of the kernels
	// that the node can boot.
	Running   string
	Installed []string
	// Sources holds the digests of the payloads whose modules are kept, such as the payloads of the
	// loaded, the desired and the previous driver.
	Sources []string
}

// Garbage returns the sets to remove. It keeps the sets of needed drivers, if the node runs or can
// boot the kernel, or if a user built them in advance.
func Garbage(sets []Set, n Needed) []Set {
	var garbage []Set
	for _, s := range sets {
		driver := slices.Contains(n.Sources, s.Key.Sources)
		kernel := s.Prebuilt || s.Key.Release == n.Running || slices.Contains(n.Installed, s.Key.Release)
		if !driver || !kernel {
			garbage = append(garbage, s)
		}
	}
	return garbage
}

// Remove removes sets from the cache.
func (c Cache) Remove(sets []Set) error {
	var errs []error
	for _, s := range sets {
		release := filepath.Dir(s.Dir)
		errs = append(errs, staging.Remove(s.Dir))
		// In the folder of a release without sets, only the lock is left.
		if entries, err := os.ReadDir(release); err == nil && len(entries) <= 1 {
			errs = append(errs, os.RemoveAll(release))
		}
	}
	return errors.Join(errs...)
}
