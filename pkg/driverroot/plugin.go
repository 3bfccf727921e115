package driverroot

import (
	"path"
	"strings"
)

// PlugIn reports whether programs open the library by its path, in a folder of
// plug-ins, so that the loader's folders and cache do not matter for it.
func (l Library) PlugIn() bool {
	dir := path.Dir(l.Path)
	return strings.Contains(dir, "/xorg") || path.Base(dir) == "vdpau"
}
