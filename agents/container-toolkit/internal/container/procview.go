package container

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"outrigger.dev/agents/container-toolkit/internal/cdihook"
	"outrigger.dev/agents/container-toolkit/internal/rootfs"
	"outrigger.dev/pkg/hostfs"
)

// procFolder is the driver's folder in the /proc of a container.
const procFolder = "/proc/driver/nvidia"

// maxProcFile is larger than any file of the driver that is copied.
const maxProcFile = 64 << 10

// procView is /proc/driver/nvidia for a container. It is a tmpfs with copies of the driver's text
// files. The folders of the container's GPUs and capabilities are mounted in it.
type procView struct {
	mount  *rootfs.Mount
	mounts []injected
}

// newProcView makes the view on the host. It returns nil if the host has no such folder.
func newProcView(proc string, v ProcView) (view *procView, err error) {
	host := filepath.Join(proc, "driver/nvidia")
	if !exists(host) {
		return nil, nil
	}
	mount, root, err := rootfs.NewTmpfs(1<<20, 0o555)
	if err != nil {
		return nil, err
	}
	view = &procView{mount: mount}
	defer func() {
		if err = errors.Join(err, root.Close()); err != nil {
			err = errors.Join(fmt.Errorf("make %s for the container: %w", procFolder, err), view.close())
		}
	}()
	for _, name := range []string{"params", "registry", "version"} {
		if err := copyText(root, host, name); err != nil {
			return view, err
		}
	}
	if err := view.folders(root, host, v); err != nil {
		return view, err
	}
	return view, mount.Freeze()
}

// copyText copies a text file of the driver, if it exists.
func copyText(root *rootfs.Root, host, name string) error {
	data, err := hostfs.ReadFile(filepath.Join(host, name), maxProcFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return root.WriteFile("/"+name, []byte(cdihook.WithoutModification(string(data))), 0o444)
}

// folders opens the folder of each GPU and capability, and creates its mount point.
func (v *procView) folders(root *rootfs.Root, host string, show ProcView) error {
	var names []string
	for _, id := range show.GPUs {
		names = append(names, path.Join("gpus", id))
	}
	for _, c := range show.Capabilities {
		names = append(names, path.Join("capabilities", c))
	}
	for _, name := range names {
		in, err := clone(filepath.Join(host, name), path.Join(procFolder, name), rootfs.Attributes{ReadOnly: true, NoSuid: true, NoDev: true, NoExec: true})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		v.mounts = append(v.mounts, in)
		if err := root.MountPoint("/"+name, in.dir); err != nil {
			return err
		}
	}
	return nil
}

// mountInto mounts the view into a container, if the driver's folder exists there.
func (v *procView) mountInto(root *rootfs.Root) error {
	if v == nil || !root.Has(procFolder) {
		return nil
	}
	if err := root.Private("/proc"); err != nil {
		return err
	}
	if err := root.Mount(procFolder, v.mount); err != nil {
		return err
	}
	for _, in := range v.mounts {
		if err := root.Mount(in.path, in.mount); err != nil {
			return err
		}
	}
	return nil
}

func (v *procView) close() error {
	if v == nil {
		return nil
	}
	return errors.Join(v.mount.Close(), closeAll(v.mounts))
}
