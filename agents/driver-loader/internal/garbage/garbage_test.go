package garbage_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/garbage"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
)

// add imports a driver, and caches a module of it for each kernel.
func add(t *testing.T, store, version string, releases ...string) payload.Payload {
	t.Helper()
	p, err := payload.Store{Dir: store, Machine: "x86_64"}.Import(t.Context(), payloadtest.Driver{Version: version}.Folder(t))
	assert.NilError(t, err)
	file := filepath.Join(t.TempDir(), "nvidia.ko")
	payloadtest.Write(t, file, "module of "+version, 0o600)
	for _, release := range releases {
		set := cache.Set{
			Key:     cache.Key{Release: release, Machine: "x86_64", Compiler: "gcc 12.2.0", Driver: version, Flavour: "open", Sources: p.Digest},
			Modules: []cache.Module{{Name: "nvidia", File: file}},
		}
		if _, err := (cache.Cache{Dir: store}).Add(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		payloadtest.Write(t, filepath.Join(store, "headers", release, "usr/src/x"), "x", 0o600)
	}
	return p
}

// state lists what a store has: drivers, releases with modules, and those with headers.
func state(t *testing.T, store string) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"drivers/[^.]*", "modules/*/[^.]*", "headers/[^.]*"} {
		found, err := filepath.Glob(filepath.Join(store, pattern))
		assert.NilError(t, err)
		for _, path := range found {
			if name := filepath.Base(filepath.Dir(path)); name == "drivers" || name == "headers" {
				all = append(all, name+" "+filepath.Base(path)[:3])
			} else {
				all = append(all, "modules "+name)
			}
		}
	}
	return all
}

func TestWhatNothingNeedsIsRemoved(t *testing.T) {
	store, modules := t.TempDir(), t.TempDir()
	for _, release := range []string{"6.1", "6.2"} {
		payloadtest.Write(t, filepath.Join(modules, release, "modules.builtin"), "", 0o644)
	}
	assert.NilError(t, os.MkdirAll(modules+"/5.9/left", 0o755))
	add(t, store, "550.1", "6.1")
	add(t, store, "570.1", "6.1") // to go back to
	now := add(t, store, "580.1", "5.9", "6.1", "6.2")
	add(t, store, "590.1", "6.2") // imported and built in advance
	needed := garbage.Needed{Kernels: append(garbage.Installed(modules), "6.1")}
	if removed, err := garbage.Collect(store, needed); err != nil || len(removed) > 0 {
		t.Errorf("without a driver that is needed: %+v, %v", removed, err)
	}
	needed.Sources = []string{now.Digest}
	removed, err := garbage.Collect(store, needed)
	if err != nil || len(removed) != 4 {
		t.Errorf("%q, %v", removed, err)
	}
	if left, err := os.ReadDir(filepath.Join(store, "modules")); err != nil || len(left) != 2 {
		t.Errorf("the releases %v have a folder for modules: %v", left, err)
	}
	want := []string{"drivers 570", "drivers 580", "drivers 590", "modules 6.1", "modules 6.1", "modules 6.2", "modules 6.2", "headers 6.1", "headers 6.2"}
	if got := state(t, store); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if removed, err := garbage.Collect(store, needed); err != nil || len(removed) > 0 {
		t.Errorf("%+v, %v", removed, err)
	}
}

// TestANewDriverStaysWhateverTheClockSays imports a driver while the clock of the node is at 1970.
func TestANewDriverStaysWhateverTheClockSays(t *testing.T) {
	store := t.TempDir()
	add(t, store, "570.1", "6.1")
	now := add(t, store, "580.1", "6.1")
	next := add(t, store, "590.1")
	record, err := os.ReadFile(next.Dir + "/payload.json")
	assert.NilError(t, err)
	payloadtest.Write(t, next.Dir+"/payload.json", regexp.MustCompile(`"imported": "\d+`).ReplaceAllString(string(record), `"imported": "1970`), 0o644)
	removed, err := garbage.Collect(store, garbage.Needed{Kernels: []string{"6.1"}, Sources: []string{now.Digest}})
	if err != nil || len(removed) > 0 {
		t.Errorf("%+v, %v", removed, err)
	}
}

func TestNeededModules(t *testing.T) {
	needed := garbage.Needed{Kernels: []string{"6.1", "6.2"}, Sources: []string{"now", "before"}}
	for name, test := range map[string]struct {
		release, sources string
		prebuilt, want   bool
	}{
		"the running kernel and the driver":     {"6.1", "now", false, false},
		"the running kernel, the driver before": {"6.1", "before", false, false},
		"the running kernel, an old driver":     {"6.1", "old", false, true},
		"an installed kernel":                   {"6.2", "now", false, false},
		"a kernel that is gone":                 {"5.9", "now", false, true},
		"built in advance":                      {"7.0", "now", true, false},
		"built in advance for an old driver":    {"7.0", "old", true, true},
	} {
		set := cache.Set{Key: cache.Key{Release: test.release, Sources: test.sources}, Prebuilt: test.prebuilt}
		if got := !needed.Modules(set); got != test.want {
			t.Errorf("%s: garbage %v", name, got)
		}
	}
}

// TestTheLastNeededFolderStays has one needed folder of each kind beside one that nothing needs.
func TestTheLastNeededFolderStays(t *testing.T) {
	store := t.TempDir()
	now := add(t, store, "580.1", "5.9", "6.1")
	if _, err := garbage.Collect(store, garbage.Needed{Kernels: []string{"6.1"}, Sources: []string{now.Digest}}); err != nil {
		t.Fatal(err)
	}
	if got, want := state(t, store), []string{"drivers 580", "modules 6.1", "headers 6.1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAnUnknownKernelKeepsEverything(t *testing.T) {
	store := t.TempDir()
	now := add(t, store, "580.1", "5.9", "6.1")
	if removed, err := garbage.Collect(store, garbage.Needed{Kernels: []string{"6.1", ""}, Sources: []string{now.Digest}}); err != nil || len(removed) > 0 {
		t.Errorf("%q, %v", removed, err)
	}
}
