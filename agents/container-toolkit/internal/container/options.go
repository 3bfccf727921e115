package container

import (
	"fmt"
)

// CompatMode selects how the CUDA compatibility libraries of an image are handled. With these
// libraries, programs for a newer CUDA run on an older driver.
type CompatMode string

// The modes of --cuda-compat-mode. CompatMount has the same effect as CompatLdconfig, because a
// file of the image is never the source of a mount.
const (
	CompatLdconfig CompatMode = "ldconfig"
	CompatMount    CompatMode = "mount"
	CompatDisabled CompatMode = "disabled"
)

// ParseCompatMode returns the mode with a name.
func ParseCompatMode(name string) (CompatMode, error) {
	for _, m := range []CompatMode{CompatLdconfig, CompatMount, CompatDisabled} {
		if name == string(m) {
			return m, nil
		}
	}
	return "", fmt.Errorf("unknown CUDA compat mode %q: use ldconfig, mount or disabled", name)
}
