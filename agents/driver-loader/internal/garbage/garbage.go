// Package garbage removes from the store what nothing on the node needs any more: modules
// and headers of old kernels, and drivers that are neither desired nor there to go back to.
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

// Removed is what was removed, by path.
type Removed struct {
	Drivers, Modules, Headers []string
}

// Collect removes what is not needed from a store. Needed.Sources are the digests of the
// drivers that are loaded or desired; if the store has none of them, nothing is removed. A
// driver that was imported after them is for later, and stays; so does the one before, to
// go back to.
func Collect(store string, n cache.Needed) (Removed, error) {
	s := payload.Store{Dir: store}
	// What cannot be read is left: it is named where it is used.
	drivers, _ := s.List()
	// The list begins with the newest.
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

// Installed returns the releases of the kernels that the node can boot, from its
// /lib/modules.
func Installed(modules string) []string {
	entries, err := os.ReadDir(modules)
	if err != nil {
		return nil
	}
	var releases []string
	for _, e := range entries {
		// Each installed kernel has this list; folders that other programs leave do not.
		if _, err := os.Stat(filepath.Join(modules, e.Name(), "modules.builtin")); err == nil {
			releases = append(releases, e.Name())
		}
	}
	return releases
}
