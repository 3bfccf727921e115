package container

import (
	"errors"

	"outrigger.dev/agents/container-toolkit/internal/rootfs"
)

// injected is a file or folder of the host that will be mounted into a container.
type injected struct {
	mount *rootfs.Mount
	path  string
	dir   bool
}

// clone opens a file of the host for mounting at a path in the container.
func clone(hostPath, path string, a rootfs.Attributes) (injected, error) {
	f, dir, err := openSource(hostPath)
	if err != nil {
		return injected{}, err
	}
	defer f.Close()
	m, err := rootfs.Clone(f, a)
	if err != nil {
		return injected{}, err
	}
	return injected{mount: m, path: path, dir: dir}, nil
}

// mountInto mounts the file into the container.
func (in injected) mountInto(root *rootfs.Root) error {
	if err := root.MountPoint(in.path, in.dir); err != nil {
		return err
	}
	return root.Mount(in.path, in.mount)
}

func closeAll(list []injected) error {
	var errs []error
	for _, in := range list {
		errs = append(errs, in.mount.Close())
	}
	return errors.Join(errs...)
}
