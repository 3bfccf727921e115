// Package version holds the version of the build. It imports only the standard library, so that any
// program can link it: agents, static tools, the simulator.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// stamp is set by the linker: -ldflags "-X outrigger.dev/pkg/version.stamp=26.11.0".
var stamp string //nolint:gochecknoglobals // -X needs a package variable; nothing assigns it

// String returns the version that the linker stamped. Otherwise it returns the version of the
// module of the binary, or "dev".
func String() string { return choose(stamp, debug.ReadBuildInfo) }

func choose(stamped string, read func() (*debug.BuildInfo, bool)) string {
	if stamped != "" {
		return stamped
	}
	info, ok := read()
	if !ok {
		return "dev"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "dev"
}

// Line returns the output of a program that is asked for its version: name, version, Go version and
// platform.
func Line(program string) string {
	return fmt.Sprintf("%s %s %s %s/%s", program, String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
