// Package modprobe loads the kernel modules of the driver with the driver's own modprobe.
package modprobe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"outrigger.dev/pkg/text"
)

// Unloaded returns the kernel modules that the control nodes need but that are not loaded, in load
// order. sys is the host's /sys.
func Unloaded(sys string) []string {
	var out []string
	for _, name := range []string{"nvidia", "nvidia-uvm", "nvidia-modeset"} {
		if _, err := os.Stat(filepath.Join(sys, "module", strings.ReplaceAll(name, "-", "_"))); err != nil {
			out = append(out, name)
		}
	}
	return out
}

// Load loads kernel modules with /sbin/modprobe of the driver root. modprobe looks for the modules
// in the driver root, because a driver container has modules that the host lacks.
func Load(ctx context.Context, driverRoot string, modules []string) error {
	var errs []error
	for _, name := range modules {
		cmd := exec.CommandContext(ctx, "/sbin/modprobe", name)
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
		if driverRoot != "/" {
			cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: driverRoot}
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("load kernel module %s with /sbin/modprobe of driver root %s: %w %s",
				name, driverRoot, err, text.Printable(strings.TrimSpace(string(out)))))
		}
	}
	return errors.Join(errs...)
}
