package ldcache

import "runtime"

// arch has the differences between the driver's architectures.
type arch struct {
	triple string
	// loaders has the paths of glibc's loader, and musl has the path of musl's loader.
	loaders []string
	musl    string
	// muslPath is the file that lists musl's search folders.
	muslPath string
	// lib64 has the folders that glibc searches in addition to /lib and /usr/lib, except on
	// distributions of Debian's family.
	lib64 []string
}

func thisArch() arch {
	if runtime.GOARCH == "arm64" {
		return arch{
			triple:   "aarch64-linux-gnu",
			loaders:  []string{"/lib/ld-linux-aarch64.so.1", "/lib64/ld-linux-aarch64.so.1"},
			musl:     "/lib/ld-musl-aarch64.so.1",
			muslPath: "/etc/ld-musl-aarch64.path",
			lib64:    []string{"/lib64", "/usr/lib64"},
		}
	}
	return arch{
		triple:   "x86_64-linux-gnu",
		loaders:  []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux.so.2"},
		musl:     "/lib/ld-musl-x86_64.so.1",
		muslPath: "/etc/ld-musl-x86_64.path",
		lib64:    []string{"/lib64", "/libx32", "/usr/lib64", "/usr/libx32"},
	}
}

// system returns the folders that glibc's loader of a distribution searches by default.
func (a arch) system(debian bool) []string {
	if debian {
		return []string{"/lib/" + a.triple, "/usr/lib/" + a.triple, "/lib", "/usr/lib"}
	}
	return append([]string{"/lib", "/usr/lib"}, a.lib64...)
}
