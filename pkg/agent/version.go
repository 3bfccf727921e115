package agent

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version is the version of the build. The linker stamps it:
// -ldflags "-X outrigger.dev/pkg/agent.Version=26.11.0".
var Version string //nolint:gochecknoglobals // -X needs a package variable; nothing assigns it

// buildVersion returns the stamped version, else the one of the module or of
// the commit that the binary was built from, else "dev".
func buildVersion(stamped string, read func() (*debug.BuildInfo, bool)) string {
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

// versionLine is what the sub-command version prints.
func versionLine(name string) string {
	return fmt.Sprintf("%s %s %s %s/%s", name, buildVersion(Version, debug.ReadBuildInfo),
		runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
