package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/mountinfo"
)

// Attributes restrict a mount. The propagation of the mount is always private.
type Attributes struct{ ReadOnly, NoSuid, NoDev, NoExec bool }

// bits returns the flags of mount_setattr(2).
func (a Attributes) bits() uint64 {
	return a.pick(unix.MOUNT_ATTR_RDONLY, unix.MOUNT_ATTR_NOSUID, unix.MOUNT_ATTR_NODEV, unix.MOUNT_ATTR_NOEXEC)
}

// flags returns the flags of mount(2).
func (a Attributes) flags() uintptr {
	return uintptr(a.pick(unix.MS_RDONLY, unix.MS_NOSUID, unix.MS_NODEV, unix.MS_NOEXEC))
}

func (a Attributes) pick(readOnly, noSuid, noDev, noExec uint64) uint64 {
	var out uint64
	for flag, set := range map[uint64]bool{readOnly: a.ReadOnly, noSuid: a.NoSuid, noDev: a.NoDev, noExec: a.NoExec} {
		if set {
			out |= flag
		}
	}
	return out
}

// Mount is a detached mount. It is independent of the mount namespace of its creator.
type Mount struct {
	file *os.File
	// later holds flags of mount(2) that are set after mounting, on kernels before Linux 5.12.
	later uintptr
}

// Clone makes a detached mount of a file or a folder, without the mounts below it. The source must
// never come from the container: open it on the host, or below the driver root. The caller may
// close source.
func Clone(source *os.File, a Attributes) (*Mount, error) {
	fd, err := unix.OpenTree(int(source.Fd()), "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("clone mount of %s: %w", source.Name(), explainENOSYS(err))
	}
	m := &Mount{file: os.NewFile(uintptr(fd), source.Name())}
	attr := unix.MountAttr{Attr_set: a.bits(), Propagation: unix.MS_PRIVATE}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr)
	if errors.Is(err, unix.ENOSYS) {
		m.later = unix.MS_REMOUNT | unix.MS_BIND | a.flags()
		return m, nil
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set attributes of the mount of %s: %w", source.Name(), err), m.Close())
	}
	return m, nil
}

// explainENOSYS adds the required version of Linux if the kernel lacks the system call.
func explainENOSYS(err error) error {
	if errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%w: this needs Linux 5.2 or later", err)
	}
	return err
}

// NewTmpfs makes an empty, detached tmpfs of at most size bytes. It returns the mount and a root
// for filling it. The caller closes both.
func NewTmpfs(size int64, mode fs.FileMode) (*Mount, *Root, error) {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("create a tmpfs: %w", explainENOSYS(err))
	}
	defer func() { _ = unix.Close(fd) }()
	for _, option := range [][2]string{
		{"size", strconv.FormatInt(size, 10)},
		{"mode", strconv.FormatUint(uint64(mode.Perm()), 8)},
		{"source", "nvidia"},
	} {
		if err := unix.FsconfigSetString(fd, option[0], option[1]); err != nil {
			return nil, nil, fmt.Errorf("create a tmpfs: set %s: %w", option[0], err)
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return nil, nil, fmt.Errorf("create a tmpfs: %w", err)
	}
	at, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("create a tmpfs: %w", err)
	}
	m := &Mount{file: os.NewFile(uintptr(at), "tmpfs")}
	dir, err := unix.FcntlInt(uintptr(at), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, errors.Join(err, m.Close())
	}
	root, err := newRoot(os.NewFile(uintptr(dir), "tmpfs"))
	if err != nil {
		return nil, nil, errors.Join(err, m.Close())
	}
	return m, root, nil
}

// Close releases the mount. If it is attached, it stays attached.
func (m *Mount) Close() error { return m.file.Close() }

// Unmount detaches the mount from its mount point.
func (m *Mount) Unmount() error { return unmount(m.file) }

// Mount mounts m on an existing file or folder, in the mount namespace of the calling thread. It
// refuses if the mount would be visible outside of the container: in the mount namespace of process
// 1, and on a shared mount.
func (r *Root) Mount(name string, m *Mount) error {
	target, err := r.lookup(name)
	if err != nil {
		return failed("mount on", name, err)
	}
	defer target.Close()
	return failed("mount on", name, r.mountOn(target, m))
}

func (r *Root) mountOn(target *os.File, m *Mount) error {
	if onHost() {
		return errors.New("the process is in the host's mount namespace: a container runtime has to run it as a createContainer hook")
	}
	if err := r.notShared(target); err != nil {
		return err
	}
	err := unix.MoveMount(int(m.file.Fd()), "", int(target.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil || m.later == 0 {
		return err
	}
	return errors.Join(setMountFlags(m.file, unix.MS_PRIVATE), setMountFlags(m.file, m.later))
}

// notShared returns an error if mounts on a file would be visible outside of the container. It
// makes the mount of the root file system private. To check a mount, the kernel lists all mounts of
// the host, so notShared checks each mount only once.
func (r *Root) notShared(target *os.File) error {
	at, err := mountinfo.Of(target)
	if err != nil {
		return err
	}
	if _, known := r.private.Load(at); known {
		return nil
	}
	own, err := mountinfo.Of(r.dir)
	if err != nil {
		return err
	}
	if at == own {
		if err := private(r.dir); err != nil {
			return err
		}
	}
	mount, err := mountinfo.ByID(at)
	if err != nil {
		return err
	}
	if mount.Shared {
		return errors.New("the mount that it is on is shared with the host")
	}
	r.private.Store(at, true)
	return nil
}

// Private makes a mount private, such as the container's /proc, so that mounts below it are not
// visible outside of the container. It does nothing if the folder is not the root of a mount.
func (r *Root) Private(name string) error {
	f, err := r.lookup(name)
	if err != nil {
		return failed("make private", name, err)
	}
	defer f.Close()
	return failed("make private", name, private(f))
}

func private(f *os.File) error {
	err := setMountFlags(f, unix.MS_PRIVATE)
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// MountPoint creates an empty file or folder as a mount point if the path does not exist. It
// replaces a dangling link.
func (r *Root) MountPoint(name string, dir bool) error {
	f, err := r.lookup(name)
	if err == nil {
		defer f.Close()
		info, err := infoOf(f)
		if err == nil && info.Mode.IsDir() != dir {
			err = errors.New("a file cannot be mounted on a folder, nor a folder on a file")
		}
		return failed("create mount point", name, err)
	}
	if dir {
		return r.MkdirAll(name)
	}
	return r.WriteFile(name, nil, 0o444)
}
