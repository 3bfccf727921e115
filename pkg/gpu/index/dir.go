package index

import "path/filepath"

// DefaultDir is the usual Config.Dir.
const DefaultDir = "/var/lib/outrigger/index"

// Dir returns the Config.Dir for a flag and the run root. Without the flag, a program with another run
// root than usual, such as a test, keeps nothing on the machine.
func Dir(flag, runRoot string) string {
	if flag == "" && filepath.Clean(runRoot) == "/run/nvidia" {
		return DefaultDir
	}
	return flag
}
