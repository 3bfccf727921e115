package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/mountinfo"
	"outrigger.dev/sim/internal/mounts"
	"outrigger.dev/sim/internal/state"
)

// Shown has the folders of a machine that shows the node to everyone, such as a node of Kubernetes.
// The process sees them at these paths, and its mounts in them propagate to the machine.
type Shown struct {
	// Proc, Sys and Run are the machine's /proc, /sys and /run/nvidia.
	Proc, Sys, Run string
}

// mounts returns what is shown where.
func (s Shown) mounts() []mounts.Mount {
	return append(mounts.Kernel(s.Proc, s.Sys), mounts.Mount{
		From: containerRoot, To: filepath.Join(s.Run, "driver"),
		// Containers get programs and libraries from here. A machine may forbid both in /run.
		Flags: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
	})
}

// HookIn returns the path of the hook of container runtimes in the driver root that the machine shows.
func HookIn(root string) string { return filepath.Join(root, hookFile) }

// Show mounts the node in the machine's folders. Existing mounts of the node stay. It makes all
// mounts, or none.
func (n *Node) Show(on Shown) (err error) {
	var m mounter
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("show node %s on the machine: %w%s", n.root, err, rootHint(err)), m.undo())
		}
	}()
	if err := os.MkdirAll(filepath.Join(on.Run, "driver"), 0o755); err != nil {
		return err
	}
	for _, s := range on.mounts() {
		if err := m.attach(n.path(s.From), s.To, s.Flags); err != nil {
			return err
		}
	}
	return nil
}

// attach is bind for a mount point whose mounts propagate. A copy of a mount does not follow later
// changes of its flags, so the flags are set before the mount appears.
func (m *mounter) attach(source, target string, flags uint64) (err error) {
	if sameFile(source, target) {
		return nil
	}
	fd, err := mounts.Copy(source, unix.MountAttr{Attr_set: flags, Attr_clr: unix.MOUNT_ATTR_NOEXEC &^ flags})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	m.done = append(m.done, target)
	return nil
}

// Hide removes the mounts of Show, also those of a node whose folder is gone.
func Hide(on Shown) error {
	var errs []error
	for _, s := range on.mounts() {
		errs = append(errs, hide(s.To))
	}
	err := os.Remove(filepath.Join(on.Run, "driver"))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(append(errs, err)...)
}

// hide unmounts everything at a path. A killed process may have mounted the node twice.
func hide(target string) error {
	found, err := mountsAt(target)
	for range found {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", target, err)
		}
	}
	return err
}

func mountsAt(target string) ([]mountinfo.Mount, error) {
	all, err := mountinfo.Read(mountinfo.Self)
	var at []mountinfo.Mount
	for _, m := range all {
		if m.Point == target {
			at = append(at, m)
		}
	}
	return at, err
}

// Taken returns why the machine's folders cannot show the node: another program shows a driver there.
// root is the folder of the node. Files and mounts of a simulated node in it are no obstacle.
func Taken(root string, on Shown, dev string) error {
	if _, err := os.Lstat(filepath.Join(root, stateFile)); err == nil {
		return nil // they belong to this node, or to a part of it that is left
	}
	var errs []error
	for _, s := range on.mounts() {
		found, err := mountsAt(s.To)
		for _, m := range found {
			// The folder may have been renamed, because it was deleted.
			if !strings.Contains(m.Root, "/"+filepath.Base(filepath.Dir(root))+"/") || !strings.Contains(m.Root, "/"+s.From) {
				err = fmt.Errorf("%s is a mount of another program: remove that driver or simulator from the node first", s.To)
			}
		}
		errs = append(errs, err)
	}
	nodes, err := filepath.Glob(filepath.Join(dev, "nvidia*"))
	if err == nil && len(nodes) > 0 {
		err = fmt.Errorf("%s exists: a driver or another simulator made it; remove that first", nodes[0])
	}
	return errors.Join(append(errs, err)...)
}

// Clear removes what the machine shows of the driver and the GPUs of the node at root. All folders
// and the hook stay, and so does the state, whose driver is unloaded. It needs no readable state.
func Clear(root string) error {
	n := &Node{root: root}
	var err error
	if st, e := state.Open(n.path(stateFile)); e == nil {
		// Programs that still use the node notice that it is gone, also if its driver is not loaded.
		err = errors.Join(st.SetDriver(false), st.Wake(), st.Close())
	}
	for _, pattern := range []string{devCtl, devDir + "/nvidia*", devDir + "/" + moveTemp + "*", procDriverDir + "/*", sysDevices + "/*", containerRoot + "/*"} {
		paths, e := filepath.Glob(n.path(pattern))
		err = errors.Join(err, e)
		for _, p := range paths {
			if info, e := os.Lstat(p); e == nil && info.Mode()&os.ModeSymlink != 0 && filepath.Dir(p) == n.path(sysDevices) {
				continue // a device of the machine
			}
			if p == n.path(containerRoot, hookFile) {
				continue
			}
			err = errors.Join(err, os.RemoveAll(p))
		}
	}
	return err
}
