// Package cdihook is what the hooks of CDI specs do in a container before it starts: the
// hooks of NVIDIA's nvidia-cdi-hook, and one that does the work of all of them. It writes
// into the container's root file system through package rootfs only, and runs no program.
package cdihook

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/container-toolkit/internal/ldcache"
	"outrigger.dev/agents/container-toolkit/internal/rootfs"
)

// Job is the work in one container. The zero Job is none.
type Job struct {
	// Links are created, in this order.
	Links []Link
	// Compat makes the CUDA libraries of the image come first, if they are later than the
	// driver's.
	Compat Compat
	// Cache makes the libraries in Folders known to the container's loader.
	Cache   bool
	Folders []string
	// KeepDevices tells the driver's programs not to create or change device nodes.
	KeepDevices bool
	// Profile limits EGL and Vulkan to the GPUs of the container.
	Profile bool
	// Modes are set on folders.
	Modes []Mode
}

// Link is a symbolic link.
type Link struct{ Target, Path string }

// Mode is the permissions of a folder.
type Mode struct {
	Path string
	Perm fs.FileMode
}

// Run does the work. What is not needed for the container to work goes to warn.
func (j Job) Run(root *rootfs.Root, warn func(string)) error {
	for _, l := range j.Links {
		err := root.Symlink(l.Target, l.Path)
		if errors.Is(err, unix.EBUSY) {
			// A file is mounted there, which is as good as a link to it.
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

// empty reports whether there is nothing to do.
func (j Job) empty() bool {
	return len(j.Links) == 0 && !j.Compat.wanted() && !j.Cache && !j.KeepDevices && !j.Profile && len(j.Modes) == 0
}
