package rootfs

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Attributes limit what a mount allows. Its propagation is always private.
type Attributes struct{ ReadOnly, NoSuid, NoDev, NoExec bool }

func (a Attributes) bits() uint64 {
	var bits uint64
	for bit, set := range map[uint64]bool{
		unix.MOUNT_ATTR_RDONLY: a.ReadOnly,
		unix.MOUNT_ATTR_NOSUID: a.NoSuid,
		unix.MOUNT_ATTR_NODEV:  a.NoDev,
		unix.MOUNT_ATTR_NOEXEC: a.NoExec,
	} {
		if set {
			bits |= bit
		}
	}
	return bits
}

// Mount is a mount that is nowhere yet. It does not depend on the mount namespace in
// which it was made.
type Mount struct{ file *os.File }

// Clone makes a mount of a file or a folder, without what is mounted below it. The source
// must never be one of a container's own files: open it on the host, or below the driver
// root. The caller may close source.
func Clone(source *os.File, a Attributes) (*Mount, error) {
	fd, err := unix.OpenTree(int(source.Fd()), "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("clone mount of %s: %w", source.Name(), older(err))
	}
	m := &Mount{file: os.NewFile(uintptr(fd), source.Name())}
	attr := unix.MountAttr{Attr_set: a.bits(), Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return nil, errors.Join(fmt.Errorf("set attributes of the mount of %s: %w", source.Name(), older(err)), m.Close())
	}
	return m, nil
}

// older says what the kernel lacks.
func older(err error) error {
	if errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%w: this needs Linux 5.12 or later", err)
	}
	return err
}

// NewTmpfs makes an empty tmpfs of at most size bytes, and returns the root through which
// it is filled. The caller closes both.
func NewTmpfs(size int64, mode fs.FileMode) (*Mount, *Root, error) {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("make a tmpfs: %w", older(err))
	}
	defer unix.Close(fd)
	for _, option := range [][2]string{
		{"size", strconv.FormatInt(size, 10)},
		{"mode", strconv.FormatUint(uint64(mode.Perm()), 8)},
		{"source", "nvidia"},
	} {
		if err := unix.FsconfigSetString(fd, option[0], option[1]); err != nil {
			return nil, nil, fmt.Errorf("make a tmpfs: set %s: %w", option[0], err)
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return nil, nil, fmt.Errorf("make a tmpfs: %w", err)
	}
	at, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("make a tmpfs: %w", err)
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

// Close releases the mount. If it is mounted somewhere, it stays there.
func (m *Mount) Close() error { return m.file.Close() }

// Unmount takes the mount away from where it was mounted.
func (m *Mount) Unmount() error {
	return unix.Unmount(procPath(m.file), unix.MNT_DETACH)
}

// procPath is the path of a file descriptor for a system call that takes a path only.
func procPath(f *os.File) string { return "/proc/thread-self/fd/" + strconv.Itoa(int(f.Fd())) }

// Mount mounts m on a file or a folder that exists, in the mount namespace of the calling
// thread. It refuses where the mount would be seen outside of the container: in the
// mount namespace of process 1, and on a shared mount.
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
	at, err := mountOf(target)
	if err != nil {
		return err
	}
	own, err := mountOf(r.dir)
	if err != nil {
		return err
	}
	if at == own {
		err = private(r.dir)
	}
	if err != nil {
		return err
	}
	if shared, err := isShared(at); err != nil || shared {
		return errors.Join(err, errors.New("the mount that it is on is shared with the host"))
	}
	return unix.MoveMount(int(m.file.Fd()), "", int(target.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// Private stops that mounts below a mount, such as the container's /proc, are seen
// outside of the container. It does nothing to a folder that is not the root of a mount.
func (r *Root) Private(name string) error {
	f, err := r.lookup(name)
	if err != nil {
		return failed("make private", name, err)
	}
	defer f.Close()
	return failed("make private", name, private(f))
}

func private(f *os.File) error {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, 0, &st); err != nil {
		return err
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return nil
	}
	return unix.MountSetattr(int(f.Fd()), "", unix.AT_EMPTY_PATH, &unix.MountAttr{Propagation: unix.MS_PRIVATE})
}

// onHost reports whether the calling thread is in the mount namespace of process 1.
func onHost() bool {
	own, err := os.Readlink("/proc/thread-self/ns/mnt")
	if err != nil {
		return true
	}
	// Who may not see it cannot mount in it either.
	host, err := os.Readlink("/proc/1/ns/mnt")
	return err == nil && own == host
}

// mountOf returns the number of the mount that a file is in.
func mountOf(f *os.File) (uint64, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
		return 0, err
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return 0, older(unix.ENOSYS)
	}
	return st.Mnt_id, nil
}

// isShared reports whether mounts on a mount are seen in other namespaces, from the
// optional fields of mountinfo.
func isShared(mount uint64) (bool, error) {
	f, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return false, err
	}
	defer f.Close()
	id := strconv.FormatUint(mount, 10)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 7 || fields[0] != id {
			continue
		}
		for _, field := range fields[6:] {
			if field == "-" {
				return false, nil
			}
			if strings.HasPrefix(field, "shared:") {
				return true, nil
			}
		}
	}
	return false, errors.New("the kernel does not list its mount")
}

// MountPoint creates an empty file, or a folder, to mount on, unless there is one. It
// replaces a link that leads nowhere.
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
