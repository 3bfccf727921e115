package driverroot

import (
	"path"
	"strings"
)

// PlugIn reports whether programs open the library by its path in a folder of plug-ins. The
// loader's folders and cache do not matter for such a library.
func (l Library) PlugIn() bool {
	dir := path.Dir(l.Path)
	return strings.Contains(dir, "/xorg") || path.Base(dir) == "vdpau"
}
