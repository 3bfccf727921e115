package payload

import (
	"path"
	"regexp"
	"strings"
)

// ModuleVersion returns the version that the kernel modules of a driver state. The version of a driver for virtual
// machines with virtual GPUs has a suffix, such as 580.95.05-grid, and its modules state 580.95.05.
func ModuleVersion(version string) string {
	numbers, _, _ := strings.Cut(version, "-")
	return numbers
}

// distribution matches the name of NVIDIA's archive, and of the folder with its content.
func distribution() *regexp.Regexp {
	return regexp.MustCompile(`^NVIDIA-Linux-[a-z0-9_]+-([0-9.]+)((?:-[A-Za-z0-9]+){0,3})(?:\.run)?$`)
}

// nameVersion returns the version in the name of NVIDIA's archive, or of the folder with its content, or "".
func nameVersion(name string) string {
	found := distribution().FindStringSubmatch(path.Base(name))
	switch {
	case found == nil || !validVersion(found[1]):
		return ""
	case strings.HasPrefix(found[2], "-grid"):
		return found[1] + found[2]
	}
	// Other suffixes name another content of the same driver, such as -no-compat32.
	return found[1]
}

// identity returns the version of a driver: the version in its manifest, and the suffix of the first name that has
// this version. The suffix is not in the manifest.
func identity(manifest string, names ...string) string {
	for _, name := range names {
		if version := nameVersion(name); ModuleVersion(version) == manifest {
			return version
		}
	}
	return manifest
}
