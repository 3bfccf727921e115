package cache_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/pkg/cause"
)

func key() cache.Key {
	return cache.Key{
		Release: "6.1.0-1-amd64", Machine: "x86_64", Compiler: "gcc-12 (Debian 12.2.0-14) 12.2.0",
		Driver: "580.95.05", Flavour: "open", Sources: "abc",
	}
}

// built returns a set whose modules lie in a folder as after a build.
func built(t *testing.T) cache.Set {
	t.Helper()
	dir := t.TempDir()
	set := cache.Set{Key: key(), Built: time.Unix(1e9, 0).UTC(), BuiltWith: "gcc-12"}
	for name, file := range map[string]string{"nvidia": "nvidia.ko", "nvidia_uvm": "nvidia-uvm.ko"} {
		path := filepath.Join(dir, file)
		assert.NilError(t, os.WriteFile(path, []byte("module "+name), 0o600))
		set.Modules = append(set.Modules, cache.Module{Name: name, File: path})
	}
	return set
}

func code(err error) cause.Code {
	var c cause.Cause
	errors.As(err, &c)
	return c.Code
}

func TestBuiltModulesAreFoundByTheirKey(t *testing.T) {
	c := cache.Cache{Dir: t.TempDir()}
	if _, err := c.Find(t.Context(), key()); !errors.Is(err, cache.ErrNotFound) {
		t.Error(err)
	}
	added, err := c.Add(t.Context(), built(t))
	assert.NilError(t, err)
	found, err := c.Find(t.Context(), key())
	if err != nil || found.Dir != added.Dir || found.BuiltWith != "gcc-12" || !found.Built.Equal(added.Built) || found.Path("nvidia_drm") != "" {
		t.Errorf("%+v, %v", found, err)
	}
	if data, err := os.ReadFile(found.Path("nvidia_uvm")); err != nil || string(data) != "module nvidia_uvm" {
		t.Errorf("%q, %v", data, err)
	}
	if sets, err := c.List(); err != nil || len(sets) != 1 {
		t.Errorf("%v, %v", sets, err)
	}
}

func TestEachPartOfAKeyCounts(t *testing.T) {
	c := cache.Cache{Dir: t.TempDir()}
	if _, err := c.Add(t.Context(), built(t)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*cache.Key){
		"release":  func(k *cache.Key) { k.Release = "6.1.0-2-amd64" },
		"machine":  func(k *cache.Key) { k.Machine = "aarch64" },
		"compiler": func(k *cache.Key) { k.Compiler = "gcc-13" },
		"driver":   func(k *cache.Key) { k.Driver = "580.105.08" },
		"flavour":  func(k *cache.Key) { k.Flavour = "proprietary" },
		"sources":  func(k *cache.Key) { k.Sources = "def" },
		"signer":   func(k *cache.Key) { k.Signer = "012" },
	} {
		other := key()
		change(&other)
		if _, err := c.Find(t.Context(), other); !errors.Is(err, cache.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*cache.Key){
		"no compiler":          func(k *cache.Key) { k.Compiler = "" },
		"no sources":           func(k *cache.Key) { k.Sources = "" },
		"a release upwards":    func(k *cache.Key) { k.Release = "../../etc" },
		"a release that hides": func(k *cache.Key) { k.Release = ".new-1" },
	} {
		other := key()
		change(&other)
		if _, err := c.Find(t.Context(), other); err == nil || errors.Is(err, cache.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		set := built(t)
		set.Key = other
		if _, err := c.Add(t.Context(), set); err == nil {
			t.Errorf("%s: added", name)
		}
	}
}

func TestADamagedSetIsNamedRemovedAndBuiltAgain(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"a changed byte":   func(dir string) error { return os.WriteFile(dir+"/nvidia.ko", []byte("Module nvidia"), 0o600) },
		"a cut file":       func(dir string) error { return os.Truncate(dir+"/nvidia.ko", 3) },
		"a file that grew": func(dir string) error { return os.WriteFile(dir+"/nvidia.ko", []byte("module nvidia."), 0o600) },
		"a missing file":   func(dir string) error { return os.Remove(dir + "/nvidia.ko") },
		"a device": func(dir string) error {
			return errors.Join(os.Remove(dir+"/nvidia.ko"), os.Symlink("/dev/zero", dir+"/nvidia.ko"))
		},
		"a cut record":       func(dir string) error { return os.Truncate(dir+"/modules.json", 10) },
		"no record":          func(dir string) error { return os.Remove(dir + "/modules.json") },
		"an empty record":    func(dir string) error { return os.WriteFile(dir+"/modules.json", []byte("{}"), 0o600) },
		"a record of others": func(dir string) error { return replace(dir+"/modules.json", `"x86_64"`, `"aarch64"`) },
		"a path upwards":     func(dir string) error { return replace(dir+"/modules.json", `"nvidia.ko"`, `"../nvidia.ko"`) },
		"no modules":         func(dir string) error { return replace(dir+"/modules.json", `"modules":`, `"other":`) },
	} {
		c := cache.Cache{Dir: t.TempDir()}
		set, err := c.Add(t.Context(), built(t))
		assert.NilError(t, err)
		if err := damage(set.Dir); err != nil {
			t.Fatal(name, err)
		}
		if _, err := c.Find(t.Context(), key()); code(err) != cause.ModuleCacheCorrupt {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Find(t.Context(), key()); !errors.Is(err, cache.ErrNotFound) {
			t.Errorf("%s is still there: %v", name, err)
		}
		if _, err := c.Add(t.Context(), built(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Find(t.Context(), key()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func replace(path, from, to string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Replace(string(data), from, to, 1)), 0o600)
}

func TestAnInterruptedAddLeavesNothing(t *testing.T) {
	c := cache.Cache{Dir: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Add(ctx, built(t)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	missing := built(t)
	missing.Modules[1].File += "x"
	if _, err := c.Add(t.Context(), missing); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	// A process that was killed while it added, or removed.
	assert.NilError(t, os.MkdirAll(c.Dir+"/modules/"+key().Release+"/.new-1/x", 0o700))
	if _, err := c.Find(t.Context(), key()); !errors.Is(err, cache.ErrNotFound) {
		t.Error(err)
	}
	if _, err := c.Add(t.Context(), built(t)); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(c.Dir + "/modules/" + key().Release)
	if err != nil || len(entries) != 2 { // the set and the lock
		t.Errorf("%v, %v", entries, err)
	}
}

func TestAFullDiskIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this machine has no root for a tmpfs")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skip("this machine has no tmpfs to mount: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	set := built(t)
	assert.NilError(t, os.WriteFile(set.Modules[0].File, make([]byte, 64<<10), 0o600))
	c := cache.Cache{Dir: dir}
	if _, err := c.Add(t.Context(), set); code(err) != cause.NoSpace {
		t.Error(err)
	}
	if _, err := c.Find(t.Context(), key()); !errors.Is(err, cache.ErrNotFound) {
		t.Error(err)
	}
}

// ending is a context that ends after a number of calls of Err.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestAStopEndsTheCopyAndTheCheckOfAModule ends the context in the middle of a module.
func TestAStopEndsTheCopyAndTheCheckOfAModule(t *testing.T) {
	set := built(t)
	set.Modules = set.Modules[:1]
	assert.NilError(t, os.WriteFile(set.Modules[0].File, make([]byte, 1<<20), 0o600))
	c := cache.Cache{Dir: t.TempDir()}
	if _, err := c.Add(&ending{t.Context(), 3}, set); !errors.Is(err, context.Canceled) {
		t.Errorf("Add() = %v", err)
	}
	_, err := c.Add(t.Context(), set)
	assert.NilError(t, err)
	if _, err := c.Find(&ending{t.Context(), 3}, key()); !errors.Is(err, context.Canceled) {
		t.Errorf("Find() = %v", err)
	}
	if _, err := c.Find(t.Context(), key()); err != nil {
		t.Errorf("the set is gone: %v", err)
	}
}
