// Package garbage removes modules and headers of old kernels from the store, and drivers that are
// neither desired nor needed for a rollback.
package garbage

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/staging"
)

// Needed lists the kernels and the drivers of a node.
type Needed struct {
	// Kernels lists the releases of the running kernel, and of the kernels that the node can boot. An unknown release is "".
	Kernels []string
	// Sources holds the digests of the drivers in use, such as the loaded, the desired and the previous driver.
	Sources []string
}

// Modules reports whether modules are needed: if their driver is needed, and the node has their kernel, or a user built
// them in advance.
func (n Needed) Modules(s cache.Set) bool {
	return slices.Contains(n.Sources, s.Key.Sources) && (s.Prebuilt || slices.Contains(n.Kernels, s.Key.Release))
}

// Collect removes everything from a store that the node does not need, and returns the removed folders. It keeps drivers
// that were imported later, and one earlier driver for a rollback. Collect removes nothing if the store has none of the
// drivers in use, or if a kernel is unknown.
func Collect(store string, n Needed) (removed []string, err error) {
	// Entries that cannot be read stay. Their users report the errors.
	drivers, _ := payload.Store{Dir: store}.List()
	// The list begins with the newest driver.
	newest := slices.IndexFunc(drivers, func(p payload.Payload) bool { return slices.Contains(n.Sources, p.Digest) })
	if newest < 0 || len(n.Kernels) == 0 || slices.Contains(n.Kernels, "") {
		return nil, nil
	}
	n.Sources = slices.Clone(n.Sources)
	spare := true
	for i, p := range drivers {
		switch {
		case slices.Contains(n.Sources, p.Digest):
		case i < newest, spare:
			spare = spare && i < newest
			n.Sources = append(n.Sources, p.Digest)
		default:
			removed = append(removed, p.Dir)
		}
	}
	sets, _ := cache.Cache{Dir: store}.List()
	for _, s := range sets {
		if !n.Modules(s) {
			removed = append(removed, s.Dir)
		}
	}
	headers, err := filepath.Glob(filepath.Join(store, "headers", "*"))
	for _, dir := range headers {
		if release := filepath.Base(dir); staging.Complete(release) && !slices.Contains(n.Kernels, release) {
			removed = append(removed, dir)
		}
	}
	for _, dir := range removed {
		err = errors.Join(err, staging.Remove(dir))
		if release := filepath.Dir(dir); filepath.Dir(release) == filepath.Join(store, "modules") {
			// In the folder of a release without modules, only the lock is left.
			if entries, readErr := os.ReadDir(release); readErr == nil && len(entries) <= 1 {
				err = errors.Join(err, os.RemoveAll(release))
			}
		}
	}
	return removed, err
}

// Installed returns the releases of the kernels that the node can boot, from its /lib/modules.
func Installed(modules string) []string {
	entries, err := os.ReadDir(modules)
	if err != nil {
		return nil
	}
	var releases []string
	for _, e := range entries {
		// Each installed kernel has this list. Folders that other programs leave do not have it.
		if _, err := os.Stat(filepath.Join(modules, e.Name(), "modules.builtin")); err == nil {
			releases = append(releases, e.Name())
		}
	}
	return releases
}
