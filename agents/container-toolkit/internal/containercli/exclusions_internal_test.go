package containercli

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/driverroot"
)

func TestWithout(t *testing.T) {
	const persistenced, fabricManager, mps = "/run/nvidia-persistenced/socket", "/var/run/nvidia-fabricmanager/socket", "/srv/mps"
	for args, want := range map[string]string{
		"":                   strings.Join([]string{persistenced, fabricManager, mps, "gsp.bin"}, " "),
		"--no-persistenced":  strings.Join([]string{fabricManager, mps, "gsp.bin"}, " "),
		"--no-fabricmanager": strings.Join([]string{persistenced, mps, "gsp.bin"}, " "),
		"--no-mps":           strings.Join([]string{persistenced, fabricManager, "gsp.bin"}, " "),
		"--no-gsp-firmware":  strings.Join([]string{persistenced, fabricManager, mps}, " "),
	} {
		t.Run(args, func(t *testing.T) {
			f := newFlags("configure", "", "")
			left := f.exclusions()
			assert.NilError(t, f.parse(strings.Fields(args)))
			c := &driverroot.Content{
				Firmware: []driverroot.File{{Path: "gsp.bin"}},
				Sockets: []driverroot.File{
					{Path: persistenced, Capabilities: driverroot.Utility},
					{Path: fabricManager, Capabilities: driverroot.Utility},
					{Path: mps, Capabilities: driverroot.Compute},
				},
			}
			left.apply(c)
			var got []string
			for _, file := range append(c.Sockets, c.Firmware...) {
				got = append(got, file.Path)
			}
			assert.Equal(t, strings.Join(got, " "), want)
		})
	}
}
