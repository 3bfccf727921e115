package install_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/install"
)

var tools = []string{
	"nvidia-cdi-hook", "nvidia-container-cli", "nvidia-container-runtime", "nvidia-container-runtime-hook", "nvidia-ctk",
}

// rig is a host and the tools to install on it.
type rig struct {
	*testing.T
	source string
	dir    install.Dir
	log    bytes.Buffer
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, source: t.TempDir(), dir: install.Dir(t.TempDir())}
	r.release("1")
	return r
}

// release makes the tools to install those of a release.
func (r *rig) release(version string) {
	r.Helper()
	for _, name := range tools {
		r.put(filepath.Join(r.source, name), name+" "+version, 0o755)
	}
}

func (r *rig) put(path, text string, mode fs.FileMode) {
	r.Helper()
	assert.NilError(r, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode)))
}

func (r *rig) remove(path string) {
	r.Helper()
	assert.NilError(r, os.RemoveAll(path))
}

func (r *rig) installer(config string) *install.Installer {
	return install.New(install.Config{
		Dir: r.dir, Source: r.source, Config: []byte(config), Log: slog.New(slog.NewTextHandler(&r.log, nil)),
	})
}

func (r *rig) install(config string) *install.Installer {
	r.Helper()
	i := r.installer(config)
	if _, err := i.Install(); err != nil {
		r.Fatal(err)
	}
	return i
}

// shows returns what a program that follows the link finds.
func (r *rig) shows() map[string]string {
	r.Helper()
	out := map[string]string{}
	for _, name := range append([]string{
		"nvidia-container-runtime.cdi", "nvidia-container-runtime.legacy", "nvidia-container-toolkit", install.ConfigFile,
	}, tools...) {
		data, err := os.ReadFile(filepath.Join(r.dir.Tools(), name))
		if err == nil {
			out[name] = string(data)
		}
	}
	return out
}

func want(version, config string) map[string]string {
	out := map[string]string{
		"nvidia-container-runtime.cdi":    "nvidia-container-runtime " + version,
		"nvidia-container-runtime.legacy": "nvidia-container-runtime " + version,
		"nvidia-container-toolkit":        "nvidia-container-runtime-hook " + version,
		install.ConfigFile:                config,
	}
	for _, name := range tools {
		out[name] = name + " " + version
	}
	return out
}

func (r *rig) check(version, config string) {
	r.Helper()
	if d := cmp.Diff(want(version, config), r.shows()); d != "" {
		r.Errorf("installed (-want +got):\n%s", d)
	}
	for _, name := range tools {
		if info, err := os.Stat(filepath.Join(r.dir.Tools(), name)); err != nil || info.Mode() != 0o755 {
			r.Errorf("%s: %v, %v, want mode 0755", name, info.Mode(), err)
		}
	}
}

// tree returns all that is on the host, with what would change if it was written.
func (r *rig) tree() map[string]string {
	r.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(string(r.dir), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == string(r.dir) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		link, _ := os.Readlink(path)
		out[path] = fmt.Sprintf("%v %v %d %s", info.Mode(), info.ModTime(), info.Size(), link)
		return nil
	})
	assert.NilError(r, err)
	return out
}

func TestInstall(t *testing.T) {
	r := newRig(t)
	i := r.install("a = 1\n")
	r.check("1", "a = 1\n")
	if i.Outdated() {
		t.Error("outdated after the installation")
	}
	before := r.tree()
	r.install("a = 1\n")
	if _, err := i.Install(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, r.tree()); d != "" {
		t.Errorf("a second installation writes (-first +second):\n%s", d)
	}
}

func TestUpgrade(t *testing.T) {
	r := newRig(t)
	r.install("a = 1\n")
	first, err := filepath.EvalSymlinks(r.dir.Tools())
	assert.NilError(t, err)
	r.release("2")
	i := r.installer("a = 2\n")
	if again, err := i.Install(); err != nil || again <= 0 || again > install.Grace {
		t.Errorf("the removal of the old version is due in %v, %v", again, err)
	}
	r.check("2", "a = 2\n")
	if data, err := os.ReadFile(filepath.Join(first, install.ConfigFile)); err != nil || string(data) != "a = 1\n" {
		t.Errorf("a tool of the old version reads %q, %v just after the upgrade", data, err)
	}
	// Later, the old version goes.
	long := time.Now().Add(-time.Hour)
	assert.NilError(t, os.Chtimes(first, long, long))
	r.install("a = 2\n") // as after a restart
	if _, err := os.Stat(first); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old version is still there: %v", err)
	}
	r.check("2", "a = 2\n")
}

func TestAnInstalledFileThatChangesIsMended(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"removed":    os.Remove,
		"truncated":  func(p string) error { return os.Truncate(p, 0) },
		"its mode":   func(p string) error { return os.Chmod(p, 0o600) },
		"a folder":   func(p string) error { return errors.Join(os.Remove(p), os.MkdirAll(p+"/x", 0o755)) },
		"a link":     func(p string) error { return errors.Join(os.Remove(p), os.Symlink("/bin/true", p)) },
		"same size":  func(p string) error { return rewrite(p) },
		"its folder": func(p string) error { return os.RemoveAll(filepath.Dir(p)) },
	} {
		for _, file := range []string{"nvidia-container-runtime", "nvidia-container-runtime.cdi", install.ConfigFile} {
			t.Run(name+": "+file, func(t *testing.T) {
				r := newRig(t)
				i := r.install("a = 1\n")
				if err := spoil(filepath.Join(r.dir.Tools(), file)); err != nil && !strings.Contains(file, ".cdi") {
					t.Fatal(err)
				}
				if !i.Outdated() {
					t.Error("not outdated")
				}
				if _, err := i.Install(); err != nil {
					t.Fatal(err)
				}
				r.check("1", "a = 1\n")
				if i.Outdated() {
					t.Error("outdated after that")
				}
			})
		}
	}
}

// rewrite changes a file, and sets its time of change back.
func rewrite(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	data := bytes.Repeat([]byte("x"), int(info.Size()))
	return errors.Join(os.WriteFile(path, data, info.Mode()), os.Chtimes(path, info.ModTime(), info.ModTime()))
}

func TestRemove(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(r *rig)
		// stays is set if the folder is no work of the installation.
		stays bool
	}{
		"the folder was empty":                   {func(*rig) {}, false},
		"there was no folder":                    {func(r *rig) { r.remove(string(r.dir)) }, false},
		"the folder had a file":                  {func(r *rig) { r.put(filepath.Join(string(r.dir), "theirs"), "", 0o600) }, true},
		"something was at the path of the tools": {func(r *rig) { r.put(filepath.Join(r.dir.Tools(), "nvidia-ctk"), "theirs", 0o755) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c.prepare(r)
			before := map[string]string{}
			if c.stays {
				before = r.tree()
			}
			i := r.install("a = 1\n")
			for range 2 {
				assert.NilError(t, i.Remove())
			}
			after := r.tree()
			delete(before, string(r.dir))
			if _, err := os.Lstat(string(r.dir)); (err == nil) != c.stays {
				t.Errorf("the folder: %v; want it there: %v", err, c.stays)
			}
			delete(after, string(r.dir))
			if d := cmp.Diff(before, after); d != "" {
				t.Errorf("after the removal (-before +after):\n%s", d)
			}
		})
	}
}

// A container sees the folder as a mount point, and removes it where it is none. What
// another program has put there meanwhile stays.
func TestRemoveAFolderThatIsAMountPoint(t *testing.T) {
	r := newRig(t)
	host := filepath.Join(t.TempDir(), "nvidia")
	r.put(filepath.Join(host, "theirs"), "", 0o600)
	if err := unix.Mount(host, string(r.dir), "", unix.MS_BIND, ""); err != nil {
		t.Skipf("this machine has no right to mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(string(r.dir), unix.MNT_DETACH) })
	r.remove(filepath.Join(host, "theirs"))
	i := install.New(install.Config{Dir: r.dir, HostDir: host, Source: r.source, Log: slog.New(slog.DiscardHandler)})
	if _, err := i.Install(); err != nil {
		t.Fatal(err)
	}
	assert.NilError(t, i.Remove())
	if _, err := os.Lstat(host); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	r := newRig(t)
	assert.NilError(t, os.Remove(filepath.Join(r.source, "nvidia-ctk")))
	if _, err := r.installer("").Install(); err == nil || !strings.Contains(err.Error(), "--toolkit-source-root") {
		t.Errorf("without a tool: %v", err)
	}
}

// What another program changes while the tools are installed is found before Install ends.
func TestAFileThatChangesMeanwhileIsMended(t *testing.T) {
	r := newRig(t)
	i := r.installer("a = 1\n")
	i.SetBefore(func(change string) error {
		if change != "switch the link" {
			return nil
		}
		written, err := filepath.Glob(r.dir.Hidden("*", "nvidia-ctk"))
		if err != nil || len(written) != 1 {
			return fmt.Errorf("find what was written: %q, %w", written, err)
		}
		return rewrite(written[0])
	})
	if _, err := i.Install(); err != nil {
		t.Fatal(err)
	}
	r.check("1", "a = 1\n")
}
