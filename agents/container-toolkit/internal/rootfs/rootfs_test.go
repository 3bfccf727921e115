package rootfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/rootfs"
	"outrigger.dev/agents/container-toolkit/internal/rootfs/rootfstest"
)

type image struct {
	testing.TB
	*rootfs.Root
	dir string
}

func newImage(t testing.TB) image {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "rootfs")
	assert.NilError(t, os.Mkdir(dir, 0o755))
	root, err := rootfs.Open(dir)
	assert.NilError(t, err)
	t.Cleanup(func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	})
	return image{t, root, dir}
}

func (i image) must(err error) {
	i.Helper()
	assert.NilError(i, err)
}

func (i image) content(name string) string {
	i.Helper()
	data, err := os.ReadFile(filepath.Join(i.dir, name))
	i.must(err)
	return string(data)
}

func TestOpenRejectsTheRootOfTheHost(t *testing.T) {
	dir := t.TempDir()
	assert.NilError(t, os.Symlink("/", filepath.Join(dir, "rootfs")))
	for _, p := range []string{"/", filepath.Join(dir, "rootfs")} {
		if r, err := rootfs.Open(p); err == nil || !strings.Contains(err.Error(), "the host's own root") {
			t.Errorf("Open(%s) = %v, %v", p, r, err)
		}
	}
}

// Each way to name a file outside leads to one inside.
func TestPathsStayInside(t *testing.T) {
	for name, c := range map[string]struct{ link, path string }{
		"dots":                     {path: "/../../../../escaped/file"},
		"a link with dots":         {link: "../../../../..", path: "/link/escaped/file"},
		"an absolute link":         {link: "/", path: "/link/escaped/file"},
		"dots behind a link":       {link: "/etc/deep", path: "/link/../../../escaped/file"},
		"a folder that is missing": {path: "/escaped/../escaped/file"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newImage(t)
			i.must(i.MkdirAll("/etc/deep"))
			if c.link != "" {
				i.must(os.Symlink(c.link, filepath.Join(i.dir, "link")))
			}
			i.must(i.WriteFile(c.path, []byte("x"), 0o640))
			if got := i.content("escaped/file"); got != "x" {
				t.Errorf("content = %q", got)
			}
			if got, err := i.ReadFile(c.path, 1); err != nil || string(got) != "x" {
				t.Errorf("ReadFile() = %q, %v", got, err)
			}
			info, err := i.Stat(c.path)
			if err != nil || info.Mode != 0o640 {
				t.Errorf("Stat() = %v, %v", info.Mode, err)
			}
			if names, err := os.ReadDir(filepath.Dir(i.dir)); err != nil || len(names) != 1 {
				t.Errorf("files beside the root: %v, %v", names, err)
			}
		})
	}
}

func TestReadRejects(t *testing.T) {
	i := newImage(t)
	i.must(unix.Mkfifo(filepath.Join(i.dir, "pipe"), 0o644))
	i.must(i.MkdirAll("/folder"))
	i.must(i.WriteFile("/large", []byte("12345"), 0o644))
	i.must(os.Mkdir(filepath.Join(i.dir, "proc"), 0o755))
	i.must(unix.Mount("proc", filepath.Join(i.dir, "proc"), "proc", 0, ""))
	defer unix.Unmount(filepath.Join(i.dir, "proc"), unix.MNT_DETACH)
	i.must(os.Symlink("/proc/self/environ", filepath.Join(i.dir, "environ")))
	i.must(os.Symlink("/proc/self/root/etc/passwd", filepath.Join(i.dir, "magic")))
	i.must(os.Symlink("/proc/self/exe", filepath.Join(i.dir, "exe")))
	for name, want := range map[string]string{
		"/pipe":          "not a regular file",
		"/folder":        "not a regular file",
		"/large":         "larger than 4 bytes",
		"/environ":       "a file of the kernel",
		"/magic":         "its path has a symbolic link into /proc",
		"/exe":           "too many levels of symbolic links",
		"/missing":       "no such file",
		"":               "invalid argument",
		"/large\x00":     "invalid argument",
		"/large/missing": "not a directory",
	} {
		data, err := i.ReadFile(name, 4)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ReadFile(%q) = %q, %v, want %q", name, data, err, want)
		}
		if err != nil && strings.Contains(err.Error(), i.dir) {
			t.Errorf("the error has a path of the host: %v", err)
		}
	}
	if _, err := i.ReadFile("/missing", 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error = %v, want ErrNotExist", err)
	}
}

func TestWriteFileReplacesLinksAndKeepsHardLinks(t *testing.T) {
	i := newImage(t)
	outside := filepath.Join(filepath.Dir(i.dir), "outside")
	i.must(os.WriteFile(outside, []byte("keep"), 0o600))
	i.must(os.Symlink(outside, filepath.Join(i.dir, "link")))
	i.must(os.Link(outside, filepath.Join(i.dir, "hard")))
	for _, name := range []string{"/link", "/hard"} {
		i.must(i.WriteFile(name, []byte("new"), 0o644))
		if got := i.content(name); got != "new" {
			t.Errorf("%s = %q", name, got)
		}
	}
	if got, err := os.ReadFile(outside); err != nil || string(got) != "keep" {
		t.Errorf("the file outside = %q, %v", got, err)
	}
}

func TestWriteFileWritesOnce(t *testing.T) {
	i := newImage(t)
	stat := func() fs.FileInfo {
		info, err := os.Stat(filepath.Join(i.dir, "file"))
		i.must(err)
		return info
	}
	i.must(i.WriteFile("/file", []byte("x"), 0o644))
	first := stat()
	i.must(i.WriteFile("/file", []byte("x"), 0o644))
	if !os.SameFile(first, stat()) {
		t.Error("a file with the content was written again")
	}
	i.must(i.WriteFile("/file", []byte("x"), 0o600))
	if got := stat().Mode(); got != 0o600 {
		t.Errorf("mode = %v", got)
	}
	// What a killed process left.
	i.must(os.WriteFile(filepath.Join(i.dir, ".file.nvidia-tmp"), []byte("old"), 0o600))
	i.must(i.WriteFile("/file", []byte("y"), 0o600))
	if names, err := os.ReadDir(i.dir); err != nil || len(names) != 1 {
		t.Errorf("files = %v, %v", names, err)
	}
}

func TestSymlink(t *testing.T) {
	i := newImage(t)
	i.must(i.WriteFile("/lib/b", nil, 0o644))
	i.must(i.Symlink("a", "/lib/b"))
	i.must(i.Symlink("a", "/lib/b"))
	if got, err := os.Readlink(filepath.Join(i.dir, "lib/b")); err != nil || got != "a" {
		t.Errorf("the link leads to %q, %v", got, err)
	}
	if err := i.Symlink("a", "/lib"); err == nil {
		t.Error("a folder was replaced by a link")
	}
	assert.ErrorIs(t, i.Symlink("", "/x"), unix.EINVAL)
	i.must(i.Remove("/lib/b"))
	i.must(i.Remove("/lib/b"))
	i.must(i.Remove("/missing/b"))
	if i.Has("/lib/b") {
		t.Error("the link is still there")
	}
}

func TestADeviceIsNotOpened(t *testing.T) {
	i := newImage(t)
	i.must(i.MkdirAll("/dev"))
	err := unix.Mknod(filepath.Join(i.dir, "dev/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	if errors.Is(err, unix.EPERM) {
		t.Skip("this machine has no right to make device nodes")
	}
	i.must(err)
	if _, err := i.OpenFile("/dev/null"); err == nil {
		t.Error("a device was opened")
	}
}

func TestChmodDirKeepsVolumes(t *testing.T) {
	i := newImage(t)
	i.must(i.MkdirAll("/dev/dri"))
	i.must(i.ChmodDir("/dev/dri", 0o700))
	if info, err := i.Stat("/dev/dri"); err != nil || info.Mode.Perm() != 0o700 {
		t.Errorf("mode = %v, %v", info.Mode, err)
	}
	i.must(i.WriteFile("/file", nil, 0o644))
	assert.ErrorContains(t, i.ChmodDir("/file", 0o700), "not a folder")
}

// A volume of the host, another file system than the image's.
func TestChmodDirOfAVolume(t *testing.T) {
	i := newImage(t)
	i.must(i.MkdirAll("/volume"))
	i.must(unix.Mount("ramfs", filepath.Join(i.dir, "volume"), "ramfs", 0, ""))
	defer unix.Unmount(filepath.Join(i.dir, "volume"), unix.MNT_DETACH)
	i.must(os.Symlink("/volume", filepath.Join(i.dir, "link")))
	assert.ErrorContains(t, i.ChmodDir("/link", 0o711), "on a volume")
}

// In a process namespace of its own, the test is process 1.
func TestMountOnTheHostIsRefused(t *testing.T) {
	if !rootfstest.InNamespace(t, unix.CLONE_NEWPID) {
		return
	}
	i := newImage(t)
	i.must(unix.Mount("proc", "/proc", "proc", 0, ""))
	defer unix.Unmount("/proc", unix.MNT_DETACH)
	m := i.clone(i.dir, rootfs.Attributes{})
	i.must(i.MkdirAll("/folder"))
	assert.ErrorContains(t, i.Mount("/folder", m), "the host's mount namespace")
}

func (i image) clone(source string, a rootfs.Attributes) *rootfs.Mount {
	i.Helper()
	f, err := os.Open(source)
	i.must(err)
	defer f.Close()
	m, err := rootfs.Clone(f, a)
	i.must(err)
	i.Cleanup(func() {
		_ = m.Unmount()
		m.Close()
	})
	return m
}

func TestMount(t *testing.T) {
	if !rootfstest.InNamespace(t, 0) {
		return
	}
	i := newImage(t)
	source := filepath.Join(t.TempDir(), "source")
	i.must(os.WriteFile(source, []byte("driver"), 0o644))
	i.must(os.Symlink("nowhere", filepath.Join(i.dir, "libcuda.so")))
	for _, name := range []string{"/usr/lib/libcuda.so", "/libcuda.so"} {
		i.must(i.MountPoint(name, false))
		i.must(i.MountPoint(name, false))
		i.must(i.Mount(name, i.clone(source, rootfs.Attributes{ReadOnly: true, NoSuid: true, NoDev: true, NoExec: true})))
		if got := i.content(name); got != "driver" {
			t.Errorf("content = %q", got)
		}
		var st unix.Statfs_t
		i.must(unix.Statfs(filepath.Join(i.dir, name), &st))
		if want := int64(unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC); st.Flags&want != want {
			t.Errorf("flags = %#x, want %#x", st.Flags, want)
		}
	}
	if err := i.MountPoint("/usr", false); err == nil {
		t.Error("a folder is a mount point for a file")
	}
}

func TestTmpfs(t *testing.T) {
	if !rootfstest.InNamespace(t, 0) {
		return
	}
	i := newImage(t)
	m, files, err := rootfs.NewTmpfs(1<<20, 0o555)
	i.must(err)
	defer files.Close()
	defer m.Close()
	i.must(files.WriteFile("/gpus/0/information", []byte("x"), 0o444))
	i.must(i.MountPoint("/proc/driver/nvidia", true))
	i.must(i.Mount("/proc/driver/nvidia", m))
	if got := i.content("proc/driver/nvidia/gpus/0/information"); got != "x" {
		t.Errorf("content = %q", got)
	}
	i.must(m.Unmount())
	if i.Has("/proc/driver/nvidia/gpus") {
		t.Error("the tmpfs is still mounted")
	}
}

// A container with shared volumes has a shared root file system.
func TestMountIsNotSeenThroughASharedMount(t *testing.T) {
	if !rootfstest.InNamespace(t, 0) {
		return
	}
	base := t.TempDir()
	assert.NilError(t, unix.Mount("base", base, "tmpfs", 0, ""))
	defer unix.Unmount(base, unix.MNT_DETACH)
	assert.NilError(t, unix.Mount("", base, "", unix.MS_SHARED, ""))
	peer := t.TempDir()
	assert.NilError(t, unix.Mount(base, peer, "", unix.MS_BIND, ""))
	defer unix.Unmount(peer, unix.MNT_DETACH)
	root, err := rootfs.Open(peer)
	assert.NilError(t, err)
	i := image{t, root, peer}
	i.must(i.MkdirAll("/volume"))
	i.must(i.WriteFile("/params", nil, 0o644))
	source := filepath.Join(t.TempDir(), "source")
	i.must(os.WriteFile(source, []byte("new"), 0o644))
	i.must(i.Mount("/params", i.clone(source, rootfs.Attributes{})))
	if got, err := os.ReadFile(filepath.Join(base, "params")); err != nil || len(got) > 0 {
		t.Errorf("the mount is seen in the peer: %q, %v", got, err)
	}
	i.must(unix.Mount("volume", filepath.Join(peer, "volume"), "tmpfs", 0, ""))
	i.must(unix.Mount("", filepath.Join(peer, "volume"), "", unix.MS_SHARED, ""))
	i.must(i.WriteFile("/volume/file", nil, 0o644))
	assert.ErrorContains(t, i.Mount("/volume/file", i.clone(source, rootfs.Attributes{})), "shared with the host")
	i.must(root.Close())
}

// The driver's parameters are a file of procfs, in a folder of procfs.
func TestMountOnProcfs(t *testing.T) {
	if !rootfstest.InNamespace(t, 0) {
		return
	}
	i := newImage(t)
	i.must(i.MkdirAll("/proc"))
	proc := filepath.Join(i.dir, "proc")
	i.must(unix.Mount("proc", proc, "proc", 0, ""))
	defer unix.Unmount(proc, unix.MNT_DETACH)
	i.must(unix.Mount("", proc, "", unix.MS_SHARED, ""))
	source := filepath.Join(t.TempDir(), "source")
	i.must(os.WriteFile(source, []byte("changed"), 0o644))
	assert.ErrorContains(t, i.Mount("/proc/version", i.clone(source, rootfs.Attributes{ReadOnly: true})), "shared with the host")
	i.must(i.Private("/proc"))
	tmpfs, files, err := rootfs.NewTmpfs(1<<20, 0o555)
	i.must(err)
	defer files.Close()
	defer tmpfs.Close()
	i.must(i.Mount("/proc/driver", tmpfs))
	i.must(tmpfs.Unmount())
	i.must(i.Mount("/proc/version", i.clone(source, rootfs.Attributes{ReadOnly: true})))
	if got := i.content("proc/version"); got != "changed" {
		t.Errorf("content = %q", got)
	}
}

func TestDirFollowsNoLinks(t *testing.T) {
	i := newImage(t)
	i.must(i.WriteFile("/lib/libx.so.1", []byte("x"), 0o644))
	i.must(i.Symlink("libx.so.1", "/lib/libx.so"))
	d, err := i.Dir("/lib")
	i.must(err)
	defer d.Close()
	if _, err := d.Open("libx.so"); err == nil {
		t.Error("a link was followed")
	}
	for _, name := range []string{"", ".", "..", "../lib/libx.so.1", "a/b"} {
		if _, err := d.Open(name); !errors.Is(err, unix.EINVAL) {
			t.Errorf("Open(%q) = %v", name, err)
		}
	}
	if d.Mounted("libx.so.1") {
		t.Error("a file of the image is a mount")
	}
	if _, err := d.Names(1); err == nil || !strings.Contains(err.Error(), "more than 1 entries") {
		t.Errorf("Names(1) = %v", err)
	}
	if names, err := d.Names(2); err != nil || len(names) != 2 {
		t.Errorf("Names(2) = %v, %v", names, err)
	}
}
