package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mounter makes mounts and can undo them.
type mounter struct {
	done []string // mount points, in order
}

func (m *mounter) mount(source, target, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", kind, target, err)
	}
	m.done = append(m.done, target)
	return nil
}

// bind shows source at target, with exactly the given flags. A node's folder may be on a file
// system that forbids devices, as /run often does. bind does nothing if target already shows
// source.
func (m *mounter) bind(source, target string, flags uintptr) error {
	if sameFile(source, target) {
		return nil
	}
	if _, err := os.Stat(target); err != nil {
		return fmt.Errorf("bind %s: %w; the machine needs it as a mount point", source, err)
	}
	if err := m.mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return setFlags(target, flags)
}

// setFlags sets exactly the given flags on a mount.
func setFlags(target string, flags uintptr) error {
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|flags, ""); err != nil {
		return fmt.Errorf("set flags of %s: %w", target, err)
	}
	return nil
}

// overlay mounts the folder dir of root over the machine's folder. If the machine lacks the folder,
// overlay uses its nearest existing parent. Later writes go to scratch, so that they are visible in
// this namespace only.
func (m *mounter) overlay(root, dir, scratch string) error {
	for !isDir("/" + dir) {
		dir = filepath.Dir(dir)
	}
	name := strings.ReplaceAll(dir, "/", "-")
	upper, work := filepath.Join(scratch, name), filepath.Join(scratch, name+".work")
	if err := errors.Join(copyMode("/"+dir, upper), os.Mkdir(work, 0o700)); err != nil {
		return err
	}
	options := fmt.Sprintf("lowerdir=%s:%s,upperdir=%s,workdir=%s", escape(filepath.Join(root, dir)), "/"+dir, escape(upper), escape(work))
	return m.mount("gpu-sim", "/"+dir, "overlay", 0, options)
}

// detach unmounts target from the namespace. Open files and other mounts of its file system stay
// usable.
func (m *mounter) detach(target string) error {
	if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach %s: %w", target, err)
	}
	m.done = slices.DeleteFunc(m.done, func(t string) bool { return t == target })
	return nil
}

// undo removes all mounts in reverse order.
func (m *mounter) undo() error {
	var errs []error
	for _, target := range slices.Backward(slices.Clone(m.done)) {
		errs = append(errs, m.detach(target))
	}
	return errors.Join(errs...)
}

// escape escapes a path for the options of overlayfs, which have ":" and "," as separators.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`).Replace(path)
}

// copyMode makes a folder with the permissions of another folder.
func copyMode(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	return os.Chmod(to, info.Mode().Perm())
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// isMount reports whether the file system at path differs from the file system of its parent.
func isMount(path string) bool {
	var here, parent unix.Stat_t
	if unix.Stat(path, &here) != nil || unix.Stat(filepath.Dir(path), &parent) != nil {
		return false
	}
	return here.Dev != parent.Dev
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
