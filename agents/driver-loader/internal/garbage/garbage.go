// Package garbage removes modules and headers of old kernels from the store, and drivers that are
// neither desired nor needed for a rollback.
package garbage

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/payload"
)

// Removed lists the removed folders.
type Removed struct {
	Drivers, Modules, Headers []string
}

// Collect removes everything from a store that the node does not need. n.Sources lists the digests of
// the drivers in use, such as the loaded and the desired driver. If the store has none of these drivers,
// Collect removes nothing. It keeps drivers that were imported later, and one earlier driver for a
// rollback.
func Collect(store string, n cache.Needed) (Removed, error) {
	s := payload.Store{Dir: store}
	// Entries that cannot be read stay. Their users report the errors.
	drivers, _ := s.List()
	// The list begins with the newest driver.
	newest := slices.IndexFunc(drivers, func(p payload.Payload) bool { return slices.Contains(n.Sources, p.Digest) })
	if newest < 0 || n.Running == "" {
		return Removed{}, nil
	}
	sources := slices.Clone(n.Sources)
	for i, p := range drivers {
		if slices.Contains(n.Sources, p.Digest) {
			continue
		}
		sources = append(sources, p.Digest)
		if i > newest {
			break
		}
	}
	n.Sources = sources
	var r Removed
	var errs []error
	for _, p := range drivers[newest:] {
		if !slices.Contains(n.Sources, p.Digest) {
			errs = append(errs, s.Remove(p))
			r.Drivers = append(r.Drivers, p.Dir)
		}
	}
	c := cache.Cache{Dir: store}
	sets, _ := c.List()
	old := cache.Garbage(sets, n)
	for _, s := range old {
		r.Modules = append(r.Modules, s.Dir)
	}
	errs = append(errs, c.Remove(old))
	var err error
	r.Headers, err = build.Places{Store: store}.RemoveFetched(append(slices.Clone(n.Installed), n.Running))
	return r, errors.Join(append(errs, err)...)
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
