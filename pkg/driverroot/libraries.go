package driverroot

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"outrigger.dev/pkg/ldso"
)

// NVML is the name under which programs load the management library.
const NVML = "libnvidia-ml.so.1"

// arch holds the differences between the architectures that the driver supports.
type arch struct {
	triple  string
	machine ldso.Machine
}

func thisArch() arch {
	if runtime.GOARCH == "arm64" {
		return arch{triple: "aarch64-linux-gnu", machine: ldso.AArch64}
	}
	return arch{triple: "x86_64-linux-gnu", machine: ldso.X8664}
}

// LoaderDirs returns the folders that the dynamic loader of a container searches without a cache:
// one of the Debian family and one of the Red Hat family.
func LoaderDirs() []string {
	return []string{"/usr/lib/" + thisArch().triple, "/usr/lib64"}
}

// knownDirs returns the folders where distributions and installers put the driver.
func knownDirs() []string {
	t := thisArch().triple
	return []string{
		"/usr/lib/" + t,
		"/usr/lib64",
		"/usr/lib/" + t + "/nvidia/current",
		"/usr/lib64/nvidia",
		"/usr/lib/nvidia",
		"/usr/lib",
		"/lib/" + t,
		"/lib64",
		"/lib/" + t + "/nvidia/current",
		"/opt/nvidia/lib64",
		"/opt/nvidia/lib",
		"/usr/local/nvidia/lib64",
		"/run/opengl-driver/lib",
		// Container-Optimized OS, on nodes of Google Kubernetes Engine and elsewhere.
		"/home/kubernetes/bin/nvidia/lib64",
		"/var/lib/nvidia/lib64",
		// Bottlerocket
		"/usr/lib/nvidia/tesla",
		"/" + strings.TrimSuffix(t, "-linux-gnu") + "-bottlerocket-linux-gnu/sys-root/usr/lib/nvidia/tesla",
		// Flatcar
		"/opt/nvidia/current/usr/lib64",
		// Talos
		"/usr/local/lib",
		"/usr/local/glibc/usr/lib",
	}
}

// knownDirs returns the folders to search, beginning with the folders of the configuration.
func (r *Root) knownDirs() []string { return append(slices.Clone(r.extraLibs), knownDirs()...) }

// libraryDir is a folder of libraries. Its path in the root has no symbolic links.
type libraryDir struct {
	path  string
	names []string
}

// libraryDirs reads the folders that may hold the driver's libraries. It reads the loader's cache
// only if the known folders do not hold a driver.
func (r *Root) libraryDirs() []libraryDir {
	dirs := r.readDirs(nil, r.knownDirs())
	if slices.ContainsFunc(dirs, func(d libraryDir) bool { return len(d.versions("libcuda")) > 0 }) {
		return dirs
	}
	return r.readDirs(dirs, r.cacheDirs())
}

func (r *Root) readDirs(dirs []libraryDir, paths []string) []libraryDir {
	for _, p := range paths {
		e, err := r.list(p)
		if err != nil || !e.info.IsDir() {
			continue
		}
		if slices.ContainsFunc(dirs, func(d libraryDir) bool { return d.path == e.real }) {
			continue
		}
		if names, err := readNames(r.ctrPathOf(e)); err == nil {
			dirs = append(dirs, libraryDir{path: e.real, names: names})
		}
	}
	return dirs
}

// readNames lists the names in a folder.
func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// libraries returns the driver's libraries in dirs and in their folders of plug-ins. It omits files
// that are not ELF files of this architecture.
func (r *Root) libraries(dirs []libraryDir, version string) []Library {
	var holders []string
	for _, d := range dirs {
		if slices.Contains(d.versions("libcuda"), version) || slices.Contains(d.versions("libnvidia-ml"), version) {
			holders = append(holders, d.path)
		}
	}
	parts := libraryParts()
	seen := map[string]bool{}
	var out []Library
	for _, d := range append(slices.Clone(dirs), r.readDirs(nil, moduleDirs(holders))...) {
		for _, name := range d.names {
			// CDI specs are JSON, which cannot contain other names.
			if !utf8.ValidString(name) {
				continue
			}
			stem, suffix, _ := strings.Cut(name, ".so")
			part := parts[stem]
			if !strings.HasSuffix(name, ".so."+version) && (part.suffix == nil || !part.suffix().MatchString(suffix)) {
				continue
			}
			l, ok := r.library(path.Join(d.path, name), part)
			if !ok || seen[l.HostPath] {
				continue
			}
			seen[l.HostPath] = true
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b Library) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// moduleDirs returns the folders that can have plug-ins, most of them below the folders of
// libraries.
func moduleDirs(libs []string) []string {
	below, fixed := moduleFolders()
	var out []string
	for _, d := range libs {
		for _, sub := range below {
			out = append(out, path.Join(d, sub))
		}
	}
	return append(out, fixed...)
}

func (r *Root) library(rel string, part libraryPart) (Library, bool) {
	e, err := r.locate(rel)
	if err != nil || !e.info.Mode().IsRegular() {
		return Library{}, false
	}
	soname, ok := r.soname(e)
	if !ok {
		return Library{}, false
	}
	base := path.Base(rel)
	stem, _, _ := strings.Cut(base, ".so")
	var names []string
	// Ignore a SONAME such as "libc.so.6" or "..", because the library would replace another file.
	if soname != base && path.Base(soname) == soname && strings.HasPrefix(soname, stem+".so") {
		names = append(names, soname)
	}
	// Compilers link to the name without a number, if the driver has it.
	linked := stem + ".so"
	if l, err := r.locate(path.Join(path.Dir(rel), linked)); err != nil || l.real != e.real {
		linked = ""
	}
	for _, name := range append(slices.Clone(part.names), linked) {
		if name != "" && name != base && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return Library{File: r.file(e, part.Capabilities), Names: names}, true
}

// soname returns the SONAME of a library, "" if it has none, and whether the file is a library of
// this architecture.
func (r *Root) soname(e entry) (string, bool) {
	f, err := os.Open(r.ctrPathOf(e))
	if err != nil {
		return "", false
	}
	defer f.Close()
	lib, ok := ldso.ReadLibrary(f)
	if !ok || lib.Machine != thisArch().machine || lib.Class != ldso.Class64 {
		return "", false
	}
	return lib.Soname, true
}

// requireLibrary records the required libraries whose files are missing or unusable.
func (e *MissingError) requireLibrary(r *Root, c *Content, dirs []libraryDir) {
	for _, stem := range requiredLibraries() {
		want := stem + ".so." + c.Version
		if slices.ContainsFunc(c.Libraries, func(l Library) bool { return path.Base(l.Path) == want }) {
			continue
		}
		var in []string
		for _, d := range dirs {
			if slices.Contains(d.names, want) {
				in = append(in, d.path)
			}
		}
		e.Required = append(e.Required, Missing{
			What: want + " as a library for " + thisArch().triple,
			In:   r.onHost(in...),
			Fix:  "reinstall the driver: the file is damaged, dangling or of another architecture",
		})
	}
}

// FindLibrary returns the path, as this process sees it, of the file that a program in the driver
// root loads as name, for example NVML.
func (r *Root) FindLibrary(name string) (string, error) {
	if path.Base(name) != name {
		return "", fmt.Errorf("find library %q: use a name without a folder", name)
	}
	searched := r.knownDirs()
	if p, ok := r.libraryIn(searched, name); ok {
		return p, nil
	}
	cached := r.cacheDirs()
	if p, ok := r.libraryIn(cached, name); ok {
		return p, nil
	}
	return "", fmt.Errorf("find library %s in driver root %s, in %s and ld.so.cache: %w",
		name, r.host, strings.Join(searched, ", "), fs.ErrNotExist)
}

func (r *Root) libraryIn(dirs []string, name string) (string, bool) {
	for _, d := range dirs {
		e, err := r.locate(path.Join(d, name))
		if err != nil || !e.info.Mode().IsRegular() {
			continue
		}
		if _, ok := r.soname(e); ok {
			return r.ctrPathOf(e), true
		}
	}
	return "", false
}
