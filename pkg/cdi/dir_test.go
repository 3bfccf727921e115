package cdi_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/cdi"
)

const vendor = "k8s.device-plugin.nvidia.com"

func TestSync(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run", "cdi")
	d := cdi.Dir{Path: dir, Vendor: vendor}
	spec := build(t, content("/", "/usr/lib64", 2), cdi.Options{Kind: kind})
	sync := func(want bool, list ...string) {
		t.Helper()
		changed, err := d.Sync(spec)
		if err != nil || changed != want {
			t.Fatalf("Sync() = %v, %v, want %v", changed, err, want)
		}
		if diff := cmp.Diff(list, names(t, dir)); diff != "" {
			t.Errorf("folder (-want +got):\n%s", diff)
		}
	}
	ours := vendor + "-gpu.json"
	sync(true, ours)
	before := stat(t, filepath.Join(dir, ours))
	sync(false, ours)
	if !os.SameFile(before, stat(t, filepath.Join(dir, ours))) {
		t.Error("a spec that is there already was written again")
	}
	for _, name := range []string{vendor + "-gpu.yaml", vendor + "-mig.json", "nvidia.com-gpu.yaml", vendor + "-notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sync(true, ours, vendor+"-notes.txt", "nvidia.com-gpu.yaml")
	spec = build(t, content("/", "/usr/lib64", 1), cdi.Options{Kind: kind})
	sync(true, ours, vendor+"-notes.txt", "nvidia.com-gpu.yaml")

	if changed, err := d.Sync(); err != nil || !changed {
		t.Errorf("Sync() of nothing = %v, %v, want a change", changed, err)
	}
	if diff := cmp.Diff([]string{vendor + "-notes.txt", "nvidia.com-gpu.yaml"}, names(t, dir)); diff != "" {
		t.Errorf("folder (-want +got):\n%s", diff)
	}
}

func TestSyncOfNothingMakesNoFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cdi")
	if changed, err := (cdi.Dir{Path: dir, Vendor: vendor}).Sync(); err != nil || changed {
		t.Errorf("Sync() = %v, %v, want no change", changed, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder exists: %v", err)
	}
}

func TestSyncRefusesTheSpecOfAnotherVendor(t *testing.T) {
	dir := t.TempDir()
	spec := build(t, content("/", "/usr/lib64", 1), cdi.Options{Kind: "nvidia.com/gpu"})
	if _, err := (cdi.Dir{Path: dir, Vendor: vendor}).Sync(spec); err == nil {
		t.Error("Sync() writes it")
	}
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("folder has %q", got)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	slices.Sort(out)
	return out
}

func stat(t *testing.T, p string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(p)
	if err != nil {
		t.Fatal(err)
	}
	return info
}
