package payload

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"

	"outrigger.dev/pkg/cause"
)

// vgpuUtil is a program of NVIDIA's images for virtual machines. It reads the host's driver version from the
// configuration space of the virtual GPU.
const vgpuUtil = "vgpu-util"

// GuestVersion returns the version of the driver in an image that works with the host of this virtual machine. It asks
// the program vgpu-util, as NVIDIA's driver container does. The version is "" without the program, without drivers for
// virtual machines in the image, and on a machine without a virtual GPU.
func GuestVersion(ctx context.Context, image string) (string, error) {
	drivers := filepath.Join(image, "drivers")
	found, err := filepath.Glob(filepath.Join(drivers, "NVIDIA-Linux-*-grid*"))
	if err != nil || len(found) == 0 {
		return "", err
	}
	// Like NVIDIA's container, take a failed count for a machine without a virtual GPU.
	if count, err := askVGPU(ctx, "count"); err != nil || count == "0" {
		return "", ctx.Err()
	}
	version, err := askVGPU(ctx, "match", "-i", drivers, "-c", filepath.Join(drivers, "vgpuDriverCatalog.yaml"))
	if err == nil && version == "" {
		err = errors.New("it printed no version")
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", problem(cause.PayloadMissing, image, "use an image that has a driver for the host's version, or set DISABLE_VGPU_VERSION_CHECK=true to load the driver of DRIVER_VERSION",
			"%s found no driver in it that works with the host of the virtual GPU (see /var/log/vgpu-util.log): %v", vgpuUtil, err)
	}
	return version, nil
}

// askVGPU runs vgpu-util, and returns the value of its output, which has the form name=value.
func askVGPU(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, vgpuUtil, args...).Output()
	_, value, _ := strings.Cut(strings.TrimSpace(string(out)), "=")
	return strings.TrimSpace(value), err
}
