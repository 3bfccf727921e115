//go:build e2e

package driver_test

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestRejected has drivers that cannot be loaded, and parameters that no module takes: on a bare
// node, and on one whose driver works.
func TestRejected(t *testing.T) {
	guest(t)
	bare := node(t)
	t.Run("a bare node stays bare", func(t *testing.T) {
		rejects(t, first)
		if after := node(t); !slices.Equal(after, bare) {
			t.Errorf("the node has %q, before it had %q", after, bare)
		}
	})
	succeeds(t, first, "load")
	t.Run("the driver that works stays", func(t *testing.T) {
		before, loads := node(t), instance(t)
		rejects(t, first)
		if after := node(t); !slices.Equal(after, before) || instance(t) != loads {
			t.Errorf("the node has %q, before it had %q; the driver was loaded again: %v", after, before, instance(t) != loads)
		}
		loaded(t, first)
		ready(t, first)
		has(t, succeeds(t, first, "load"), "driver "+first+" is ready")
	})
}

// rejects fails the test unless all that the kernel would reject is, with its cause and fix.
// current is the version to pass parameters to.
func rejects(t *testing.T, current string) {
	t.Helper()
	fails(t, otherOptions, "load", "ModuleWrongOptions: module nvidia: ", `the running kernel has "SMP `, "fix: build the module again for the running kernel")
	fails(t, otherKernel, "load", "ModuleWrongRelease: driver "+otherKernel, `was built for the kernel "5.`, "fix: use a driver image with modules for the kernel 6.")
	fails(t, dependent, "load", "KernelModuleMissing: module udp_tunnel: the driver needs it", "fix: install the package")
	before, err := os.ReadFile(parameters)
	if err != nil {
		t.Fatal(err)
	}
	defer write(t, parameters, string(before))
	write(t, parameters, string(before)+"NVreg_EnableMSl=1\n")
	fails(t, current, "load", "ModuleParameterUnknown: module nvidia: ", "NVreg_EnableMSl", "fix: ")
	write(t, parameters, string(before)+"NVreg_EnableMSI=yes\n")
	fails(t, current, "load", "ModuleParameterInvalid: module nvidia: ", "NVreg_EnableMSI", "fix: ")
}

// node returns what a node has of a driver: the kernel's modules, and the files of which other
// agents take notice.
func node(t *testing.T) []string {
	t.Helper()
	list, err := os.ReadFile("/proc/modules")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(list)) {
		out = append(out, strings.Fields(line)[0])
	}
	for _, file := range []string{"/run/nvidia/validations/driver-ready", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm", "/proc/driver/nvidia/version"} {
		if _, err := os.Lstat(file); err == nil {
			out = append(out, file)
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return out
}
