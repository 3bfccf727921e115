package driverroot

import (
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/pkg/driverproc"
)

var versioned = pattern(`^(lib[^/]+)\.so\.(\d+\.\d+(?:\.\d+)?)$`)

// versions returns the versions of the library with this stem in the folder.
func (d libraryDir) versions(stem string) []string {
	var out []string
	for _, n := range d.names {
		if !strings.HasPrefix(n, stem+".so.") {
			continue
		}
		if m := versioned().FindStringSubmatch(n); m != nil && m[1] == stem {
			out = append(out, m[2])
		}
	}
	return out
}

// version returns the driver version that has both required libraries. If there are several,
// it returns the version of the loaded kernel module.
func (r *Root) version(dirs []libraryDir, missing *MissingError) string {
	found := map[string][]string{}
	searched := make([]string, 0, len(dirs))
	for _, d := range dirs {
		searched = append(searched, d.path)
		for _, stem := range []string{"libcuda", "libnvidia-ml"} {
			found[stem] = append(found[stem], d.versions(stem)...)
		}
	}
	if len(searched) == 0 {
		searched = r.knownDirs()
	}
	const fix = "install the driver, or set the driver root to where it is installed"
	var both []string
	for _, stem := range []string{"libcuda", "libnvidia-ml"} {
		if len(found[stem]) == 0 {
			missing.Required = append(missing.Required, Missing{What: stem + ".so.<version>", In: r.onHost(searched...), Fix: fix})
		}
	}
	for _, v := range found["libcuda"] {
		if slices.Contains(found["libnvidia-ml"], v) && !slices.Contains(both, v) {
			both = append(both, v)
		}
	}
	// Without a loaded module, kernel is empty and matches no version.
	kernel, _ := driverproc.Root(r.proc).Version()
	switch {
	case len(missing.Required) > 0:
		return ""
	case len(both) == 1:
		return both[0]
	case slices.Contains(both, kernel):
		return kernel
	}
	missing.Required = append(missing.Required, Missing{
		What: fmt.Sprintf("one driver version (libcuda %s, libnvidia-ml %s, kernel module %q)",
			strings.Join(found["libcuda"], " "), strings.Join(found["libnvidia-ml"], " "), kernel),
		In:  r.onHost(searched...),
		Fix: "remove the files of other driver versions",
	})
	return ""
}
