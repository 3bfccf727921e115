package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/sim/internal/arch"
	"outrigger.dev/sim/internal/mounts"
)

// HostRoot is the driver root of a driver that is installed on the machine.
const HostRoot = "/"

// NoRoot stands for a node without a driver root, whose kernel is simulated by Serve.
const NoRoot = "none"

// runRoot is the folder through which the agents of a node communicate.
const runRoot = "/run/nvidia"

// Enter moves the calling thread, and the programs that it executes afterwards, into a private
// mount namespace that shows the node at the real paths. The calling goroutine stays locked to its
// thread. After an error, the process is in an unusable namespace and should end.
func (n *Node) Enter(ctx context.Context, driverRoot string) error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w%s", err, rootHint(err))
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := n.mountRun(); err != nil {
		return err
	}
	if err := n.mount(ctx, driverRoot); err != nil {
		return err
	}
	// This matches a machine that systemd has started: mounts propagate to the namespaces of containers
	// that are made from here, but not to the machine.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mounts within the namespace: %w", err)
	}
	return nil
}

// Mount shows the node at the real paths, in the mount namespace of the process. It keeps existing
// mounts of the node. It rejects the machine's own namespace.
func (n *Node) Mount(ctx context.Context, driverRoot string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	private, err := n.privateNamespace()
	if err != nil {
		return err
	}
	if !private {
		return errors.New("mount node: this is the machine's own mount namespace, which process 1 has, and the node would hide its devices from everyone; use \"gpu-sim exec -- COMMAND\", " +
			"or run this in one made by \"gpu-sim exec\" or \"unshare --mount\"; in a container that is to be the node, add --all-programs")
	}
	return n.mount(ctx, driverRoot)
}

// MountForAll is Mount for a machine or a container of which all programs are to see the node.
func (n *Node) MountForAll(ctx context.Context, driverRoot string) error {
	return n.mount(ctx, driverRoot)
}

// mountRun gives the namespace the node's own /run/nvidia, in which agents exchange files and lock GPUs. Agents of two
// nodes on one machine would otherwise wait for each other.
func (n *Node) mountRun() error {
	for _, dir := range []string{n.path(runDir), runRoot} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make the node's %s: %w", runRoot, err)
		}
	}
	return new(mounter).bind(n.path(runDir), runRoot, unix.MS_NOSUID)
}

// privateNamespace reports whether the mount namespace of the calling thread already shows the node, or is not the
// namespace of process 1. In a new PID namespace, the check of process 1 does not help, but there
// the node was entered before.
func (n *Node) privateNamespace() (bool, error) {
	if sameFile("/dev", n.path(devDir)) {
		return true, nil
	}
	own, err := rootMount("thread-self") // the mounts are made in the namespace of this thread
	if err != nil {
		return false, err
	}
	first, err := rootMount("1")
	if err != nil {
		return false, err
	}
	return own != first, nil
}

// rootMount returns the ID of the first mount that a process or thread sees. Namespaces do not share mounts,
// so the ID identifies the namespace. The link ns/mnt identifies it too, but only a process that
// may trace the other process can read the link.
func rootMount(process string) (string, error) {
	text, err := os.ReadFile(filepath.Join("/proc", process, "mountinfo"))
	if err != nil {
		return "", fmt.Errorf("read mount namespace: %w; is /proc mounted?", err)
	}
	id, _, _ := strings.Cut(string(text), " ")
	return id, nil
}

// mount makes all mounts, or none.
func (n *Node) mount(ctx context.Context, driverRoot string) (err error) {
	if !filepath.IsAbs(driverRoot) && driverRoot != NoRoot {
		return fmt.Errorf("mount node: driver root %q is not an absolute path; use /, /run/nvidia/driver or %s", driverRoot, NoRoot)
	}
	var m mounter
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("mount node %s: %w%s", n.root, err, rootHint(err)), m.undo())
		}
	}()
	if err := n.mountDev(&m); err != nil {
		return err
	}
	for _, b := range mounts.Kernel("/proc", "/sys") {
		if err := m.bind(n.path(b.From), b.To, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC); err != nil {
			return err
		}
	}
	if driverRoot == NoRoot {
		return m.bind(n.path(modulesDir), "/sys/module", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)
	}
	if filepath.Clean(driverRoot) != HostRoot {
		if err := os.MkdirAll(driverRoot, 0o755); err != nil {
			return err
		}
		return m.bind(n.path(containerRoot), driverRoot, unix.MS_NODEV)
	}
	return n.mountInstalled(ctx, &m)
}

// mountDev mounts the node's folder on /dev, so that device nodes made later are visible. It keeps
// the file systems that are mounted in /dev.
func (n *Node) mountDev(m *mounter) (err error) {
	if sameFile("/dev", n.path(devDir)) {
		// An init program may have bound it from a file system that forbids devices.
		return setFlags("/dev", unix.MS_NOSUID)
	}
	kept := map[string]int{}
	for _, name := range devMounts() {
		if !isMount("/dev/" + name) {
			continue
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, "/dev/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("keep /dev/%s: %w", name, err)
		}
		defer func() { err = errors.Join(err, unix.Close(fd)) }()
		kept[name] = fd
	}
	if err := m.bind(n.path(devDir), "/dev", unix.MS_NOSUID); err != nil {
		return err
	}
	for _, name := range devMounts() {
		path := "/dev/" + name
		if fd, ok := kept[name]; ok {
			if err := unix.MoveMount(fd, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
				return fmt.Errorf("keep %s: %w", path, err)
			}
			m.done = append(m.done, path)
			continue
		}
		kind, options := devFilesystem(name)
		if err := m.mount(kind, path, kind, unix.MS_NOSUID|unix.MS_NOEXEC, options); err != nil {
			return err
		}
	}
	return nil
}

// devFilesystem returns the type and the options of a file system of /dev that the machine lacks.
func devFilesystem(name string) (kind, options string) {
	switch name {
	case "pts":
		return "devpts", "newinstance,ptmxmode=0666,mode=620"
	case "shm":
		return "tmpfs", "mode=1777"
	}
	return name, ""
}

// mountInstalled mounts the driver root over the machine's folders, like an installation of the
// driver's packages.
func (n *Node) mountInstalled(ctx context.Context, m *mounter) error {
	firmware := "/lib/firmware/nvidia"
	if sameFile(firmware, n.path(fwDir)) {
		return nil
	}
	scratch := n.path(stageDir)
	if err := m.mount("tmpfs", scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	for _, dir := range []string{"lib/firmware", "etc", "usr/bin", arch.Libraries, "usr/share"} {
		if err := m.overlay(n.path(driverRoot), dir, scratch); err != nil {
			return err
		}
	}
	// The overlays still use the folders in scratch after it is unmounted.
	if err := m.detach(scratch); err != nil {
		return err
	}
	// The firmware folder is a separate mount. The state must be the same inode everywhere, and must
	// stay writable for an agent that mounts "/" read-only.
	if err := m.bind(n.path(fwDir), firmware, unix.MS_NOSUID|unix.MS_NODEV); err != nil {
		return err
	}
	return updateLoaderCache(ctx, m)
}

// updateLoaderCache runs ldconfig. ldconfig also remembers libraries in a folder of the machine. It truncates a file there
// that another ldconfig may have mapped, and the other one then ends with SIGBUS. So the folder is hidden.
func updateLoaderCache(ctx context.Context, m *mounter) (err error) {
	if memory := "/var/cache/ldconfig"; isDir(memory) {
		if err := m.mount("tmpfs", memory, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=700"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.detach(memory)) }()
	}
	out, err := exec.CommandContext(ctx, "/sbin/ldconfig", "-X").CombinedOutput()
	if err != nil {
		return fmt.Errorf("update loader cache: ldconfig: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func rootHint(err error) string {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return " (run as root, outside of a user namespace)"
	}
	return ""
}
