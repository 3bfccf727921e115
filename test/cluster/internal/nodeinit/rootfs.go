package nodeinit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/test/cluster/internal/render"
)

// private returns the folders that configure a machine as a node of Kubernetes. They are empty on a
// new node.
func private() []string {
	return []string{
		"/etc/cdi", "/etc/cni", "/etc/containerd", "/etc/containers", "/etc/crio", "/etc/kubernetes", "/opt/cni",
		"/var/lib/cni", "/var/lib/containerd", "/var/lib/containers", "/var/lib/crio", "/var/lib/etcd", "/var/lib/kubelet",
		"/var/log/containers", "/var/log/pods",
	}
}

// PrepareRoot creates the folder that Root returns, with the given files.
func PrepareRoot(s Spec, files map[string][]byte) error {
	for _, dir := range []string{s.Root(), s.work(), s.merged(), filepath.Join(s.Dir, "log")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create folder of %s: %w", s.Name, err)
		}
	}
	for _, dir := range private() {
		path := filepath.Join(s.Root(), dir)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("create folder of %s: %w", s.Name, err)
		}
		if err := unix.Setxattr(path, "trusted.overlay.opaque", []byte("y"), 0); err != nil {
			return fmt.Errorf("hide the machine's %s from %s: %w", dir, s.Name, err)
		}
	}
	for path, content := range files {
		path = filepath.Join(s.Root(), path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("create folder of %s: %w", s.Name, err)
		}
		if err := os.WriteFile(path, content, fileMode(path)); err != nil {
			return fmt.Errorf("write file of %s: %w", s.Name, err)
		}
	}
	return nil
}

// fileMode returns the mode of a file: only root can read keys, and everyone can run programs.
func fileMode(path string) os.FileMode {
	if strings.HasSuffix(filepath.Dir(path), render.Programs) {
		return 0o755
	}
	switch filepath.Ext(path) {
	case ".key", ".kubeconfig":
		return 0o600
	}
	return 0o644
}

func (s Spec) work() string   { return filepath.Join(s.Dir, "work") }
func (s Spec) merged() string { return filepath.Join(s.Dir, "merged") }

// volumes returns the folders of the node that are mounts, by source: folders that need a real file
// system, because they contain overlays or databases, and folders that the node shares with the
// machine.
func (s Spec) volumes() map[string]string {
	at := func(name string) string { return filepath.Join(s.Dir, name) }
	return map[string]string{
		s.Dir:                s.Dir,
		s.BinDir:             s.BinDir,
		at("containerd"):     "/var/lib/containerd",
		at("containers"):     "/var/lib/containers",
		at("kubelet"):        "/var/lib/kubelet",
		at("etcd"):           "/var/lib/etcd",
		at("log/pods"):       "/var/log/pods",
		at("log/containers"): "/var/log/containers",
	}
}

// enterRoot creates the node's root file system and moves the process into it. The root is
// an overlay over the machine's root, and writes go to the node's own folder. Programs of
// the machine therefore run on the node, and the node changes nothing on the machine.
func enterRoot(s Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separate the node's mounts from the machine's: %w", err)
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

// mountKernel mounts the kernel's file systems, as this node's namespaces see them, and an
// empty /run.
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
		return fmt.Errorf("create mount point: %w", err)
	}
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s at %s: %w", kind, target, err)
	}
	return nil
}

// bind mounts a folder, which it creates if needed, at a second path. The flag MS_REC
// includes the mounts in it.
func bind(source, target string, flags uintptr) error {
	for _, dir := range []string{source, target} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create mount point: %w", err)
		}
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|flags, ""); err != nil {
		return fmt.Errorf("bind %s at %s: %w", source, target, err)
	}
	return nil
}

// pivot makes root the root of the mount namespace, and detaches the old root.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("enter node root: %w", err)
	}
	// The old root is then mounted over the new root, and unmounted from there.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot to %s: %w", root, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the machine's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("enter node root: %w", err)
	}
	// Pods see later mounts of other pods only if all mounts are shared.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts of the node: %w", err)
	}
	return nil
}
