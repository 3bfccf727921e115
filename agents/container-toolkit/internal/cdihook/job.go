// Package cdihook implements the hooks that CDI specs run in a container before it starts: the
// hooks of NVIDIA's nvidia-cdi-hook, and one hook that does the work of several. It writes to the
// container's root file system only through package rootfs, and runs no program.
package cdihook

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/container-toolkit/internal/ldcache"
	"outrigger.dev/agents/container-toolkit/internal/rootfs"
)

// Job is the work in one container. The zero Job does nothing.
type Job struct {
	// Links is created in this order.
	Links []Link
	// Compat makes the image's CUDA libraries come first if they are later than the driver's.
	Compat Compat
	// Cache makes the libraries in Folders known to the container's loader.
	Cache   bool
	Folders []string
	// KeepDevices tells the driver's programs not to create or change device nodes.
	KeepDevices bool
	// Profile limits EGL and Vulkan to the GPUs of the container.
	Profile bool
	// Modes has the permissions to set on folders.
	Modes []Mode
}

// Link is a symbolic link.
type Link struct{ Target, Path string }

// Mode has the permissions of a folder.
type Mode struct {
	Path string
	Perm fs.FileMode
}

// Run does the work. It calls warn for problems that do not prevent the container from working.
func (j Job) Run(root *rootfs.Root, warn func(string)) error {
	for _, l := range j.Links {
		err := root.Symlink(l.Target, l.Path)
		if errors.Is(err, unix.EBUSY) {
			// A file is mounted at the path. It has the same effect as a link.
			warn(err.Error())
			continue
		}
		if err != nil {
			return fmt.Errorf("create-symlinks: %w", err)
		}
	}
	if err := j.Compat.enable(root, warn); err != nil {
		return fmt.Errorf("enable-cuda-compat: %w", err)
	}
	if j.Cache {
		if err := ldcache.Update(root, j.Folders, warn); err != nil {
			return fmt.Errorf("update-ldcache: %w", err)
		}
	}
	if j.KeepDevices {
		if err := keepDevices(root, paramsFile, warn); err != nil {
			return fmt.Errorf("disable-device-node-modification: %w", err)
		}
	}
	if j.Profile {
		if err := limitEGL(root); err != nil {
			return fmt.Errorf("update-application-profile: %w", err)
		}
	}
	for _, m := range j.Modes {
		if err := root.ChmodDir(m.Path, m.Perm); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("chmod: %w", err)
		}
	}
	return nil
}

// empty reports whether the job does nothing.
func (j Job) empty() bool {
	return len(j.Links) == 0 && !j.Compat.wanted() && !j.Cache && !j.KeepDevices && !j.Profile && len(j.Modes) == 0
}
