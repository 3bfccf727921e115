package driverroot_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/driverroot"
)

// TestMPSFolderIsTakenOnlyFromTheOwner checks that nobody but the owner of the
// driver root can choose a folder of the host that containers may write.
func TestMPSFolderIsTakenOnlyFromTheOwner(t *testing.T) {
	folder := func(r *rendered, rel string) {
		if err := os.MkdirAll(filepath.Join(r.dir, rel), 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
	mounted := driverroot.File{HostPath: "/run/nvidia/driver/tmp/nvidia-mps", Path: "/tmp/nvidia-mps"}
	for name, c := range map[string]struct {
		render func(r *rendered)
		want   []driverroot.File
	}{
		"a folder of the owner": {
			render: func(r *rendered) { folder(r, "tmp/nvidia-mps") },
			want:   []driverroot.File{mounted},
		},
		"a folder below a link of the owner": {
			render: func(r *rendered) { folder(r, "var/tmp/nvidia-mps"); r.link("tmp", "var/tmp") },
			want:   []driverroot.File{{HostPath: "/run/nvidia/driver/var/tmp/nvidia-mps", Path: mounted.Path}},
		},
		"a link to another folder": {
			render: func(r *rendered) { folder(r, "etc"); r.link("tmp/nvidia-mps", "/etc") },
		},
		"a folder of another user": {
			render: func(r *rendered) {
				folder(r, "tmp/nvidia-mps")
				if err := os.Chown(filepath.Join(r.dir, "tmp/nvidia-mps"), 65534, 65534); err != nil {
					r.t.Skipf("only root can give a folder to another user: %v", err)
				}
			},
		},
		"a file": {
			render: func(r *rendered) { r.file("tmp/nvidia-mps", 0o644, nil) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRendered(t)
			r.driver()
			c.render(r)
			if d := cmp.Diff(c.want, r.find().Sockets, unmarked()); d != "" {
				t.Errorf("sockets (-want +got):\n%s", d)
			}
		})
	}
}

// TestLibrariesTakeNoForeignNames checks that a library is mounted under names
// of its own, and in no other's place.
func TestLibrariesTakeNoForeignNames(t *testing.T) {
	for name, soname := range map[string]string{
		"the folder above":             "..",
		"the folder itself":            ".",
		"the C library":                "libc.so.6",
		"a path":                       "/etc/libnvidia-x.so",
		"the name of the file":         "libnvidia-x.so." + version,
		"a longer name of its own kin": "libnvidia-xyz.so.1",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRendered(t)
			r.driver()
			file := "usr/lib/x86_64-linux-gnu/libnvidia-x.so." + version
			r.library(file, soname)
			for _, l := range r.find().Libraries {
				if l.Path == "/"+file && len(l.Names) > 0 {
					t.Errorf("the library has the names %q, want none", l.Names)
				}
			}
		})
	}
}

// Programs that load a library by its path do not find it by its SONAME.
func TestLibrariesHaveTheNamesThatProgramsOpen(t *testing.T) {
	const lib = "usr/lib/x86_64-linux-gnu/"
	for file, want := range map[string][]string{
		lib + "libnvidia-allocator.so." + version:             {"libnvidia-allocator.so.1", "gbm/nvidia-drm_gbm.so"},
		lib + "libnvidia-vulkan-producer.so." + version:       {"libnvidia-vulkan-producer.so"},
		lib + "nvidia/xorg/libglxserver_nvidia.so." + version: {"libglxserver_nvidia.so"},
	} {
		t.Run(file, func(t *testing.T) {
			r := newRendered(t)
			r.driver()
			r.library(file, want[0])
			c := r.find()
			i := slices.IndexFunc(c.Libraries, func(l driverroot.Library) bool { return l.Path == "/"+file })
			if i < 0 {
				t.Fatalf("the libraries lack %s", file)
			}
			if diff := cmp.Diff(want, c.Libraries[i].Names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

// Compilers link to libnvidia-ml.so. The installer of the driver makes such links.
func TestLibrariesHaveTheNamesThatCompilersLinkTo(t *testing.T) {
	const lib = "/usr/lib/x86_64-linux-gnu/"
	for name, tc := range map[string]struct {
		target string
		want   []string
	}{
		"no link":                     {"", []string{"libnvidia-ml.so.1"}},
		"a link to the SONAME":        {"libnvidia-ml.so.1", []string{"libnvidia-ml.so.1", "libnvidia-ml.so"}},
		"a link to the library":       {"libnvidia-ml.so." + version, []string{"libnvidia-ml.so.1", "libnvidia-ml.so"}},
		"a link to another library":   {"libcuda.so." + version, []string{"libnvidia-ml.so.1"}},
		"a link that leads nowhere":   {"absent", []string{"libnvidia-ml.so.1"}},
		"a link that leads to itself": {"libnvidia-ml.so", []string{"libnvidia-ml.so.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRendered(t)
			r.driver()
			if tc.target != "" {
				r.link(lib+"libnvidia-ml.so", tc.target)
			}
			c := r.find()
			i := slices.IndexFunc(c.Libraries, func(l driverroot.Library) bool { return l.Path == lib+"libnvidia-ml.so."+version })
			if i < 0 {
				t.Fatal("the libraries lack NVML")
			}
			if diff := cmp.Diff(tc.want, c.Libraries[i].Names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamesThatJSONCannotCarryAreLeftOut(t *testing.T) {
	r := newRendered(t)
	r.driver()
	r.library("usr/lib/x86_64-linux-gnu/libnvidia-\xff.so."+version, "libnvidia-1.so.1")
	for _, l := range r.find().Libraries {
		if strings.Contains(l.Path, "\xff") {
			t.Errorf("%q is in the content: a CDI spec would name a file that is not there", l.Path)
		}
	}
}

// TestLoaderCacheDoesNotFillTheMemory has a cache of 1 MiB in which each entry
// names the same long path.
func TestLoaderCacheDoesNotFillTheMemory(t *testing.T) {
	const entries, header, entry = 20_000, 48, 24
	cache := make([]byte, header+entries*entry, header+entries*entry+512<<10)
	copy(cache, "glibc-ld.so.cache1.1")
	binary.NativeEndian.PutUint32(cache[20:], entries)
	for i := range entries {
		at := cache[header+i*entry:]
		binary.NativeEndian.PutUint32(at, 0x0303)
		binary.NativeEndian.PutUint32(at[8:], uint32(len(cache)))
	}
	cache = append(cache, strings.Repeat("x", 512<<10)...)
	cache = append(cache, 0)
	r := newRendered(t)
	r.nodes()
	r.file("etc/ld.so.cache", 0o644, cache)
	allocated := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, err := r.root().Find(); err == nil {
				b.Fatal("there is no driver")
			}
		}
	}).AllocedBytesPerOp()
	if limit := int64(16 << 20); allocated > limit {
		t.Errorf("Find() allocates %d bytes for a cache of %d, want at most %d", allocated, len(cache), limit)
	}
}
