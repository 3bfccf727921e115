//go:build e2e

package driver_test

import (
	"os"
	"strings"
	"testing"
)

// TestImages loads drivers that were imported from the layouts of NVIDIA's images, one after the other.
func TestImages(t *testing.T) {
	guest(t)
	for _, image := range []struct {
		name, version, modules string
		proprietary            bool
	}{
		{"guest with a virtual GPU", "580.95.09-grid", "580.95.09", false},
		{"precompiled for Ubuntu", "580.95.10", "580.95.10", false},
		{"precompiled for Red Hat, and proprietary", "580.95.11", "580.95.11", true},
	} {
		t.Run(image.name, func(t *testing.T) {
			has(t, succeeds(t, image.version, "load"), "driver "+image.version+" is ready")
			loaded(t, image.modules)
			ready(t, image.modules)
			taint, err := os.ReadFile("/sys/module/nvidia/taint")
			if err != nil || strings.Contains(string(taint), "P") != image.proprietary {
				t.Errorf("the module nvidia has the taint %q, %v", taint, err)
			}
			shows(t, "/sys/module/firmware_class/parameters/path", "/run/nvidia/driver/lib/firmware")
			firmware, err := os.ReadFile("/run/nvidia/driver/lib/firmware/nvidia/" + image.modules + "/gsp_ga10x.bin")
			if err != nil || string(firmware) != image.modules {
				t.Errorf("firmware %q, %v", firmware, err)
			}
			// Without its record, the agent recognizes its module by the build ID, and replaces it.
			if err := os.Remove("/run/nvidia/driver-loader.json"); err != nil {
				t.Error(err)
			}
			has(t, succeeds(t, image.version, "plan"), "version "+image.version+" is loaded")
		})
	}
	// Without the store too, the driver is a driver of another program.
	if err := os.Remove("/run/nvidia/driver-loader.json"); err == nil {
		t.Error("the agent wrote its record without loading a module")
	}
	if err := os.RemoveAll(store + "/modules"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(store + "/journal.json"); err != nil {
		t.Fatal(err)
	}
	fails(t, "580.95.10", "load", "DriverOfOtherProgram: driver 580.95.11: it is loaded, and this agent has neither built nor loaded it", "fix: ")
	loaded(t, "580.95.11")
}
