package rootfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/rootfs"
	"outrigger.dev/agents/container-toolkit/internal/rootfs/rootfstest"
)

// crun mounts the root file system of a read-only container before it runs hooks.
func TestAReadOnlyRootIsChangedAndStaysReadOnly(t *testing.T) {
	if !rootfstest.InNamespace(t, 0) {
		return
	}
	dir := t.TempDir()
	bind := func(path string) {
		t.Helper()
		assert.NilError(t, unix.Mount(path, path, "", unix.MS_BIND, ""))
		t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
		assert.NilError(t, unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	}
	for _, path := range []string{"volume", "old"} {
		assert.NilError(t, os.Mkdir(filepath.Join(dir, path), 0o700))
	}
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "old/file"), nil, 0o644))
	bind(dir)
	bind(filepath.Join(dir, "volume"))
	if errors.Is(unix.MountSetattr(-1, "", 0, &unix.MountAttr{}), unix.ENOSYS) {
		t.Skip("this machine has no mount_setattr: Linux 5.12")
	}
	root, err := rootfs.Open(dir)
	assert.NilError(t, err)
	i := image{t, root, dir}
	i.must(i.Symlink("libx.so.1", "/lib/libx.so"))
	i.must(i.WriteFile("/lib/libx.so.1", []byte("x"), 0o644))
	i.must(i.WriteFile("/lib/libx.so.1", []byte("y"), 0o644))
	i.must(i.ChmodDir("/old", 0o755))
	i.must(i.Remove("/old/file"))
	if got := i.content("lib/libx.so"); got != "y" {
		t.Errorf("content = %q", got)
	}
	if i.Has("/old/file") {
		t.Error("a removed file is there")
	}
	source := filepath.Join(t.TempDir(), "source")
	i.must(os.WriteFile(source, []byte("mounted"), 0o644))
	i.must(i.MountPoint("/usr/lib/libcuda.so", false))
	i.must(i.Mount("/usr/lib/libcuda.so", i.clone(source, rootfs.Attributes{ReadOnly: true})))
	if got := i.content("usr/lib/libcuda.so"); got != "mounted" {
		t.Errorf("content = %q", got)
	}
	if err := i.WriteFile("/volume/file", nil, 0o644); !rootfs.CannotChange(err) {
		t.Errorf("WriteFile() on a read-only volume = %v", err)
	}
	i.must(root.Close())
	assert.ErrorIs(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644), unix.EROFS)
}
