package clients

import (
	"path"
	"slices"
	"strings"

	"outrigger.dev/pkg/config/strict"
)

// version is the only version of the file.
const version = "v1"

// Parse reads a file with the units of the host that use GPUs, in the format of NVIDIA's MIG
// manager. It returns their names in the order of the file.
func Parse(name string, data []byte) ([]string, error) {
	doc := strict.Parse(name, data)
	top := doc.Root().Map("version", "systemd-services")
	if v, ok := top.Get("version").Text(); !top.Get("version").Set() {
		top.Get("version").Missing(version)
	} else if ok && v != version {
		top.Get("version").Bad(version)
	}
	var units []string
	for _, entry := range top.Get("systemd-services").List() {
		unit, ok := entry.Text()
		switch {
		case !ok:
		case path.Ext(unit) == "" || strings.ContainsAny(unit, "/ *?[") || strings.HasSuffix(unit, ".target"):
			entry.Bad("the name of a unit, such as nvidia-dcgm.service")
		case slices.Contains(units, unit):
			entry.Fail("is listed twice")
		default:
			units = append(units, unit)
		}
	}
	return units, doc.Err()
}
