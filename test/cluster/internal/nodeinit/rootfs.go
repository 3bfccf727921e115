package nodeinit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// private lists the folders of the machine that say how it is itself set up as
// a node. They start empty on ours.
func private() []string {
	return []string{
		"/etc/cdi", "/etc/cni", "/etc/containerd", "/etc/kubernetes", "/opt/cni",
		"/var/lib/cni", "/var/lib/containerd", "/var/lib/etcd", "/var/lib/kubelet",
		"/var/log/containers", "/var/log/pods",
	}
}

// PrepareRoot makes the folder that Root returns, with the given files in it.
func PrepareRoot(s Spec, files map[string][]byte) error {
	for _, dir := range []string{s.Root(), s.work(), s.merged(), filepath.Join(s.Dir, "log")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make folder of %s: %w", s.Name, err)
		}
	}
	for _, dir := range private() {
		path := filepath.Join(s.Root(), dir)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("make folder of %s: %w", s.Name, err)
		}
		if err := unix.Setxattr(path, "trusted.overlay.opaque", []byte("y"), 0); err != nil {
			return fmt.Errorf("hide the machine's %s from %s: %w", dir, s.Name, err)
		}
	}
	for path, content := range files {
		path = filepath.Join(s.Root(), path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make folder of %s: %w", s.Name, err)
		}
		if err := os.WriteFile(path, content, fileMode(path)); err != nil {
			return fmt.Errorf("write file of %s: %w", s.Name, err)
		}
	}
	return nil
}

// fileMode keeps keys from everyone but root.
func fileMode(path string) os.FileMode {
	switch filepath.Ext(path) {
	case ".key", ".kubeconfig":
		return 0o600
	}
	return 0o644
}

func (s Spec) work() string   { return filepath.Join(s.Dir, "work") }
func (s Spec) merged() string { return filepath.Join(s.Dir, "merged") }

// volumes are the folders of the node that need a real file system below them,
// because they hold overlays or databases, or that are read from the machine.
func (s Spec) volumes() map[string]string {
	at := func(name string) string { return filepath.Join(s.Dir, name) }
	return map[string]string{
		s.Dir:                s.Dir,
		s.BinDir:             s.BinDir,
		at("containerd"):     "/var/lib/containerd",
		at("kubelet"):        "/var/lib/kubelet",
		at("etcd"):           "/var/lib/etcd",
		at("log/pods"):       "/var/log/pods",
		at("log/containers"): "/var/log/containers",
	}
}

// enterRoot makes the node's root file system and moves the process into it.
// The root is the machine's, with every write kept in the node's own folder, so
// that programs of the machine run on the node and nothing of the node reaches
// the machine.
func enterRoot(s Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("part from the machine's mounts: %w", err)
	}
	options := fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s", s.Root(), s.work())
	if err := unix.Mount("overlay", s.merged(), "overlay", 0, options); err != nil {
		return fmt.Errorf("mount overlay over the root of %s (its folder must be on a disk, not on an overlay): %w", s.Name, err)
	}
	if err := mountKernel(s.merged()); err != nil {
		return err
	}
	for source, target := range s.volumes() {
		if err := bind(source, filepath.Join(s.merged(), target), 0); err != nil {
			return err
		}
	}
	if err := makeDevices(s, filepath.Join(s.merged(), "dev")); err != nil {
		return err
	}
	return pivot(s.merged())
}

// mountKernel mounts the file systems that the kernel fills, as this node's
// namespaces see them, and the empty run-time folder.
func mountKernel(root string) error {
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	return errors.Join(
		mount("proc", filepath.Join(root, "proc"), "proc", safe, ""),
		mount("sysfs", filepath.Join(root, "sys"), "sysfs", safe, ""),
		bind("/sys/fs/cgroup", filepath.Join(root, "sys/fs/cgroup"), unix.MS_REC),
		mount("tmpfs", filepath.Join(root, "run"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"),
		os.MkdirAll(filepath.Join(root, "run/lock"), 0o1777),
		os.MkdirAll(filepath.Join(root, "run/cdi"), 0o755),
	)
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("make mount point: %w", err)
	}
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s at %s: %w", kind, target, err)
	}
	return nil
}

// bind mounts a folder, made if need be, at a second place. With the flag
// MS_REC the mounts in it come along.
func bind(source, target string, flags uintptr) error {
	for _, dir := range []string{source, target} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make mount point: %w", err)
		}
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|flags, ""); err != nil {
		return fmt.Errorf("bind %s at %s: %w", source, target, err)
	}
	return nil
}

// pivot makes root the root of the mount namespace, with the old one gone.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("enter node root: %w", err)
	}
	// The old root comes to lie over the new one, whence it is taken off.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot to %s: %w", root, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the machine's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("enter node root: %w", err)
	}
	// Pods see mounts that others make later only if all of this is shared.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts of the node: %w", err)
	}
	return nil
}
