package clients

import (
	"regexp"
	"slices"
	"strings"

	"outrigger.dev/pkg/config/strict"
)

// version is the only version of the file.
const version = "v1"

// maxName is the length of the longest name of a unit (systemd.unit(5)).
const maxName = 255

var (
	// name is that of a unit with a program, or of one that starts it. To stop a slice or a target, a
	// mount or a scope would stop what uses no GPU.
	name = regexp.MustCompile(`^[A-Za-z0-9:_.\\][A-Za-z0-9:_.\\@-]*\.(service|socket|timer|path)$`)
	// bus is a unit without which systemd does not answer.
	bus = regexp.MustCompile(`^dbus(-[a-z]+)?\.(service|socket)$`)
)

// Parse reads a file with the units of the host that use GPUs, in the format of NVIDIA's MIG
// manager. Errors call it file. It returns their names in the order of the file.
func Parse(file string, data []byte) ([]string, error) {
	doc := strict.Parse(file, data)
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
		case len(unit) > maxName || !name.MatchString(unit):
			entry.Bad("the name of a service, socket, timer or path of systemd, such as nvidia-dcgm.service")
		case strings.Contains(unit, "@."):
			entry.Fail("%s is a template: must be an instance, such as %s", unit, strings.Replace(unit, "@.", "@0.", 1))
		case bus.MatchString(unit):
			entry.Fail("%s is the message bus, over which units are stopped and started: must be left out", unit)
		case slices.Contains(units, unit):
			entry.Fail("is listed twice")
		default:
			units = append(units, unit)
		}
	}
	return units, doc.Err()
}
