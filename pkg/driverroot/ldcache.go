package driverroot

import (
	"os"
	"path"
	"slices"
	"strings"

	"outrigger.dev/pkg/ldso"
)

// cacheDirs returns the folders of the driver's libraries that are in the root's ld.so.cache. It
// returns nothing if the cache is absent or damaged.
func (r *Root) cacheDirs() []string {
	e, err := r.locate("/etc/ld.so.cache")
	if err != nil || !e.info.Mode().IsRegular() {
		return nil
	}
	if e.info.Size() > ldso.MaxCache {
		return nil
	}
	data, err := os.ReadFile(r.ctrPathOf(e))
	if err != nil {
		return nil
	}
	libs, err := ldso.Parse(data)
	if err != nil {
		return nil
	}
	var dirs []string
	want, _ := ldso.Library{Machine: thisArch().machine, Class: ldso.Class64}.Flags()
	for _, l := range libs {
		base := path.Base(l.Path)
		if l.Flags&ldso.ArchMask != want&ldso.ArchMask || !strings.HasPrefix(base, "libcuda.so") && !strings.HasPrefix(base, "libnvidia-ml.so") {
			continue
		}
		if d := path.Dir(l.Path); !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}
