package cdi_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/pkg/cdi"
)

const vendor = "k8s.device-plugin.nvidia.com"

func TestSync(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run", "cdi")
	d := cdi.Dir{Path: dir, Kinds: []string{kind, vendor + "/gds"}}
	ours, gds := vendor+"-gpu.json", vendor+"-gds.json"
	sync := func(changed bool, desired []*specs.Spec, list ...string) {
		t.Helper()
		got, err := d.Sync(desired...)
		if err != nil || got.Changed != changed || got.Outdated() {
			t.Fatalf("Sync() = %+v, %v, want changed %v, and up to date", got, err, changed)
		}
		if diff := cmp.Diff(list, names(t, dir)); diff != "" {
			t.Errorf("folder (-want +got):\n%s", diff)
		}
	}
	spec := build(t, content("/", "/usr/lib64", 2), cdi.Options{Kind: kind})
	bare := build(t, content("/", "/usr/lib64", 1), cdi.Options{Kind: vendor + "/gds", Bare: true})
	sync(true, []*specs.Spec{spec, bare}, gds, ours)
	before := stat(t, filepath.Join(dir, ours))
	sync(true, []*specs.Spec{spec}, ours)
	sync(false, []*specs.Spec{spec}, ours)
	if !os.SameFile(before, stat(t, filepath.Join(dir, ours))) {
		t.Error("Sync wrote a spec again that was there already")
	}
	spec = build(t, content("/", "/usr/lib64", 1), cdi.Options{Kind: kind})
	sync(true, []*specs.Spec{spec}, ours)
	sync(true, nil)
}

// An owner of a kind with a common vendor shares the folder with NVIDIA's tools
// and with people.
func TestSyncLeavesWhatOthersWrote(t *testing.T) {
	const own = "nvidia.com-gpu.json"
	whole := `{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[]}`
	for name, c := range map[string]struct {
		file, data string
		// link is the target of a symbolic link that stands at file.
		link    string
		foreign bool
	}{
		"another kind of the vendor":               {file: "nvidia.com-mig.json", data: `{"cdiVersion":"0.5.0","kind":"nvidia.com/mig"}`},
		"a kind that begins alike":                 {file: "nvidia.com-gpu-claim.json", data: `{"kind":"nvidia.com/gpu-claim"}`},
		"the kind under another name":              {file: "nvidia.json", data: whole, foreign: true},
		"the kind as nvidia-ctk writes it":         {file: "nvidia.yaml", data: "---\ncdiVersion: 0.5.0\ndevices: []\nkind: nvidia.com/gpu\n", foreign: true},
		"the kind in YAML under the owner's stem":  {file: "nvidia.com-gpu.yaml", data: "kind: \"nvidia.com/gpu\"\n", foreign: true},
		"JSON in a file for YAML":                  {file: "toolkit.yaml", data: whole, foreign: true},
		"another kind under the owner's name":      {file: own, data: `{"kind":"example.com/gpu"}`},
		"broken JSON under the owner's name":       {file: own, data: whole[:len(whole)-2]},
		"two documents under the owner's name":     {file: own, data: whole + whole},
		"an empty file under the owner's name":     {file: own},
		"a link under the owner's name":            {file: own, link: "elsewhere", foreign: true},
		"a dangling link under the owner's name":   {file: own, link: "nowhere"},
		"a kind deep in a YAML file":               {file: "notes.yaml", data: "spec:\n  kind: nvidia.com/gpu\n"},
		"a file that is no spec":                   {file: "nvidia.com-gpu.json.bak", data: whole},
		"a temporary file of another program":      {file: ".nvidia.json.tmp-1", data: whole},
		"a temporary file of this program, in use": {file: ".nvidia.com-gpu.json.tmp-1", data: whole},
	} {
		t.Run(name, func(t *testing.T) {
			dir, outside := t.TempDir(), t.TempDir()
			path := filepath.Join(dir, c.file)
			if c.link != "" {
				put(t, filepath.Join(outside, "elsewhere"), whole)
				assert.NilError(t, os.Symlink(filepath.Join(outside, c.link), path))
			} else {
				put(t, path, c.data)
			}
			got, err := cdi.Dir{Path: dir, Kinds: []string{"nvidia.com/gpu", "management.nvidia.com/gpu"}}.Sync()
			if err != nil || got.Changed {
				t.Errorf("Sync() = %+v, %v, want no change", got, err)
			}
			var foreign []string
			if c.foreign {
				foreign = []string{path}
			}
			if diff := cmp.Diff(foreign, got.Foreign); diff != "" {
				t.Errorf("foreign (-want +got):\n%s", diff)
			}
			if c.link != "" {
				if target, err := os.Readlink(path); err != nil || target != filepath.Join(outside, c.link) {
					t.Errorf("link leads to %q, %v", target, err)
				}
			} else if data, err := os.ReadFile(path); err != nil || string(data) != c.data {
				t.Errorf("file has %q, %v, want it untouched", data, err)
			}
		})
	}
}

func TestSyncTakesOverTheNameOfItsKind(t *testing.T) {
	spec := build(t, content("/", "/usr/lib64", 1), cdi.Options{Kind: kind})
	want, err := cdi.Encode(spec)
	assert.NilError(t, err)
	for name, prepare := range map[string]func(t *testing.T, path string){
		"from an older version": func(t *testing.T, path string) { put(t, path, `{"cdiVersion":"0.3.0","kind":"`+kind+`"}`) },
		"from a truncated spec": func(t *testing.T, path string) { put(t, path, string(want[:100])) },
		"from a link, which is not followed": func(t *testing.T, path string) {
			other := filepath.Join(t.TempDir(), "other")
			put(t, other, "")
			t.Cleanup(func() {
				if data, err := os.ReadFile(other); err != nil || len(data) > 0 {
					t.Errorf("the target of the link has %q, %v", data, err)
				}
			})
			assert.NilError(t, os.Symlink(other, path))
		},
		"despite the leftover of a process that was killed": func(t *testing.T, path string) {
			left := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp-1234")
			put(t, left, string(want[:100]))
			hourAgo := time.Now().Add(-time.Hour)
			assert.NilError(t, os.Chtimes(left, hourAgo, hourAgo))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, vendor+"-gpu.json")
			prepare(t, path)
			got, err := cdi.Dir{Path: dir, Kinds: []string{kind}}.Sync(spec)
			if err != nil || !got.Changed || len(got.Foreign) > 0 {
				t.Errorf("Sync() = %+v, %v, want a change and nothing foreign", got, err)
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != string(want) {
				t.Errorf("spec is %q, %v", data, err)
			}
			if diff := cmp.Diff([]string{filepath.Base(path)}, names(t, dir)); diff != "" {
				t.Errorf("folder (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSyncedIsOutdatedWhenASpecIsDamaged(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"removed":   os.Remove,
		"truncated": func(path string) error { return os.Truncate(path, 10) },
		"replaced": func(path string) error {
			data, err := os.ReadFile(path)
			return errors.Join(err, os.Remove(path), os.WriteFile(path, data, 0o600))
		},
		"hidden from runtimes": func(path string) error { return os.Chmod(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			spec := build(t, content("/", "/usr/lib64", 1), cdi.Options{Kind: kind})
			d := cdi.Dir{Path: t.TempDir(), Kinds: []string{kind}}
			got, err := d.Sync(spec)
			if err != nil || got.Outdated() {
				t.Fatalf("Sync() = %+v, %v, want what is up to date", got, err)
			}
			assert.NilError(t, damage(filepath.Join(d.Path, vendor+"-gpu.json")))
			if !got.Outdated() {
				t.Error("Outdated() = false")
			}
			if got, err = d.Sync(spec); err != nil || !got.Changed || got.Outdated() {
				t.Errorf("Sync() = %+v, %v, want the spec written again", got, err)
			}
		})
	}
}

func TestSyncOfNothingCreatesNoFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cdi")
	if got, err := (cdi.Dir{Path: dir, Kinds: []string{kind}}).Sync(); err != nil || got.Changed {
		t.Errorf("Sync() = %+v, %v, want no change", got, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder exists: %v", err)
	}
}

func TestSyncRejectsTheKindOfAnotherOwner(t *testing.T) {
	dir := t.TempDir()
	spec := build(t, content("/", "/usr/lib64", 1), cdi.Options{Kind: "nvidia.com/gpu"})
	if _, err := (cdi.Dir{Path: dir, Kinds: []string{kind}}).Sync(spec); err == nil {
		t.Error("Sync() = nil, want an error")
	}
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("folder has %q", got)
	}
}

func put(t *testing.T, path, data string) {
	t.Helper()
	assert.NilError(t, os.WriteFile(path, []byte(data), 0o600))
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	assert.NilError(t, err)
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
	assert.NilError(t, err)
	return info
}
