package clients

import (
	"regexp"
	"slices"
	"strings"

	"outrigger.dev/pkg/config/strict"
)

// version is the only version of the file format.
const version = "v1"

// maxName is the largest length of a unit name (systemd.unit(5)).
const maxName = 255

var (
	// name matches the names of services and of units that start services. Slices, targets, mounts
	// and scopes are rejected, because stopping them would also stop processes that do not use GPUs.
	name = regexp.MustCompile(`^[A-Za-z0-9:_.\\][A-Za-z0-9:_.\\@-]*\.(service|socket|timer|path)$`)
	// bus matches the units of the message bus. Without these units, systemd does not answer.
	bus = regexp.MustCompile(`^dbus(-[a-z]+)?\.(service|socket)$`)
)

// Parse parses a file with the host's units that use GPUs, in the format of NVIDIA's MIG manager.
// file is the name in errors. It returns the names of the units, in the order of the file.
func Parse(file string, data []byte) ([]string, error) {
	doc := strict.Parse(file, data)
	top := doc.Root().Map("version", "systemd-services")
	top.Get("version").Require(version)
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
