package driverroot_test

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/ldso"
	"outrigger.dev/pkg/ldso/ldsotest"
)

const version = "580.95.05"

// rendered is a driver root in a folder, to be described before it is used.
type rendered struct {
	t   testing.TB
	dir string
}

func newRendered(t testing.TB) *rendered {
	return &rendered{t: t, dir: t.TempDir()}
}

// file writes a file, with its folders, at a path in the root.
func (r *rendered) file(rel string, mode os.FileMode, data []byte) {
	r.t.Helper()
	p := filepath.Join(r.dir, rel)
	assert.NilError(r.t, os.MkdirAll(filepath.Dir(p), 0o755))
	assert.NilError(r.t, os.WriteFile(p, data, mode))
}

// library writes a library with a SONAME.
func (r *rendered) library(rel, soname string) {
	r.t.Helper()
	r.file(rel, 0o644, ldsotest.Library(elf.EM_X86_64, soname))
}

func (r *rendered) link(rel, target string) {
	r.t.Helper()
	p := filepath.Join(r.dir, rel)
	assert.NilError(r.t, os.MkdirAll(filepath.Dir(p), 0o755))
	assert.NilError(r.t, os.Symlink(target, p))
}

// node makes a character device, or skips the test where that is not allowed.
func (r *rendered) node(rel string, mode, major, minor uint32) {
	r.t.Helper()
	p := filepath.Join(r.dir, rel)
	assert.NilError(r.t, os.MkdirAll(filepath.Dir(p), 0o755))
	err := unix.Mknod(p, unix.S_IFCHR|mode, int(unix.Mkdev(major, minor)))
	if errors.Is(err, unix.EPERM) {
		r.t.Skip("device nodes cannot be made here: CAP_MKNOD is missing")
	}
	if err == nil {
		err = os.Chmod(p, os.FileMode(mode)) // without the umask
	}
	assert.NilError(r.t, err)
}

// driver renders what every driver installation has.
func (r *rendered) driver() {
	r.t.Helper()
	lib := "/usr/lib/x86_64-linux-gnu/"
	r.library(lib+"libcuda.so."+version, "libcuda.so.1")
	r.library(lib+"libnvidia-ml.so."+version, "libnvidia-ml.so.1")
	r.link(lib+"libnvidia-ml.so.1", "libnvidia-ml.so."+version)
	r.nodes()
}

func (r *rendered) nodes() {
	r.t.Helper()
	for name, minor := range map[string]uint32{"nvidiactl": 255, "nvidia0": 0, "nvidia1": 1, "nvidia-modeset": 254} {
		r.node("/dev/"+name, 0o666, 195, minor)
	}
	r.node("/dev/nvidia-uvm", 0o666, 506, 0)
	r.node("/dev/nvidia-uvm-tools", 0o666, 506, 1)
}

// root returns the rendered root as a process sees it that has it mounted; on
// the host it is at /run/nvidia/driver.
func (r *rendered) root() *driverroot.Root {
	r.t.Helper()
	root, err := driverroot.New(driverroot.Config{
		HostPath: "/run/nvidia/driver", CtrPath: r.dir,
		ProcRoot: filepath.Join(r.dir, "proc"), SysRoot: filepath.Join(r.dir, "sys"),
		HostDev: filepath.Join(r.dir, "host/dev"),
	})
	assert.NilError(r.t, err)
	return root
}

// unmarked compares contents without the state of the folders. Capabilities have
// a test of their own.
func unmarked() cmp.Option {
	return cmp.Options{
		cmpopts.IgnoreUnexported(driverroot.Content{}, driverroot.Extras{}),
		cmpopts.IgnoreFields(driverroot.File{}, "Capabilities"),
	}
}

func (r *rendered) find() *driverroot.Content {
	r.t.Helper()
	c, err := r.root().Find()
	assert.NilError(r.t, err)
	return c
}

func TestFindDescribesADriver(t *testing.T) {
	r := newRendered(t)
	r.driver()
	lib := "/usr/lib/x86_64-linux-gnu/"
	r.link("/lib", "usr/lib")
	r.library(lib+"libnvidia-nvvm70.so.4", "libnvidia-nvvm70.so.4")
	r.library(lib+"libnvidia-glcore.so."+version, "libnvidia-glcore.so."+version)
	r.library(lib+"vdpau/libvdpau_nvidia.so."+version, "libvdpau_nvidia.so.1")
	r.library(lib+"libz.so.1.2.13", "libz.so.1")
	r.file("/usr/bin/nvidia-smi", 0o755, []byte("#!"))
	r.file("/usr/bin/nvidia-debugdump", 0o644, []byte("not a program"))
	r.file("/usr/lib/firmware/nvidia/"+version+"/gsp_ga10x.bin", 0o644, []byte("fw"))
	r.file("/usr/lib/firmware/nvidia/535.1/gsp_old.bin", 0o644, []byte("fw"))
	r.file("/usr/share/glvnd/egl_vendor.d/10_nvidia.json", 0o644, []byte("{}"))
	r.file("/etc/vulkan/icd.d/nvidia_icd.json", 0o644, []byte("{}"))
	r.link("/var/run", "/run")
	assert.NilError(t, os.MkdirAll(filepath.Join(r.dir, "run/nvidia-persistenced"), 0o755))
	listen(t, filepath.Join(r.dir, "run/nvidia-persistenced/socket"))
	r.node("/dev/dri/renderD128", 0o660, 226, 128)
	r.link("/sys/class/drm/renderD128", "../../devices/pci0000:00/0000:07:00.0/drm/renderD128")

	host := "/run/nvidia/driver"
	file := func(p string) driverroot.File { return driverroot.File{HostPath: host + p, Path: p} }
	node := func(name string) driverroot.DeviceNode {
		return driverroot.DeviceNode{HostPath: host + "/dev/" + name, Path: "/dev/" + name, Mode: 0o666}
	}
	want := &driverroot.Content{
		Version: version,
		Libraries: []driverroot.Library{
			{File: file(lib + "libcuda.so." + version), Names: []string{"libcuda.so.1", "libcuda.so"}},
			{File: file(lib + "libnvidia-glcore.so." + version)},
			{File: file(lib + "libnvidia-ml.so." + version), Names: []string{"libnvidia-ml.so.1"}},
			{File: file(lib + "libnvidia-nvvm70.so.4")},
			{File: file(lib + "vdpau/libvdpau_nvidia.so." + version), Names: []string{"libvdpau_nvidia.so.1"}},
		},
		Binaries: []driverroot.File{file("/usr/bin/nvidia-smi")},
		Firmware: []driverroot.File{{
			HostPath: host + "/usr/lib/firmware/nvidia/" + version + "/gsp_ga10x.bin",
			Path:     "/lib/firmware/nvidia/" + version + "/gsp_ga10x.bin",
		}},
		Configs: []driverroot.File{
			file("/etc/vulkan/icd.d/nvidia_icd.json"),
			file("/usr/share/glvnd/egl_vendor.d/10_nvidia.json"),
		},
		Sockets: []driverroot.File{file("/run/nvidia-persistenced/socket")},
		Control: []driverroot.DeviceNode{node("nvidia-modeset"), node("nvidia-uvm"), node("nvidia-uvm-tools"), node("nvidiactl")},
		GPUs:    map[int]driverroot.DeviceNode{0: node("nvidia0"), 1: node("nvidia1")},
		DRM: map[string][]driverroot.DeviceNode{
			"0000:07:00.0": {{HostPath: host + "/dev/dri/renderD128", Path: "/dev/dri/renderD128", Mode: 0o660}},
		},
		Caps:   map[int]driverroot.DeviceNode{},
		Extras: driverroot.Extras{IMEX: map[int]driverroot.DeviceNode{}},
	}
	if d := cmp.Diff(want, r.find(), unmarked()); d != "" {
		t.Errorf("Find() (-want +got):\n%s", d)
	}
}

func listen(t *testing.T, path string) {
	t.Helper()
	// A path that is too long for a socket address is reached by its folder.
	t.Chdir(filepath.Dir(path))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Base(path))
	assert.NilError(t, err)
	t.Cleanup(func() { _ = l.Close() })
}

func TestFindSearchesWhereDistributionsPutTheDriver(t *testing.T) {
	for name, dir := range map[string]string{
		"Red Hat":             "/usr/lib64",
		"Arch":                "/usr/lib",
		"Debian alternatives": "/usr/lib/x86_64-linux-gnu/nvidia/current",
		"a read-only distro":  "/opt/nvidia/lib64",
		"GKE":                 "/lib64",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRendered(t)
			r.nodes()
			r.library(dir+"/libcuda.so."+version, "libcuda.so.1")
			r.library(dir+"/libnvidia-ml.so."+version, "libnvidia-ml.so.1")
			r.link(dir+"/libnvidia-ml.so.1", "libnvidia-ml.so."+version)
			if got := r.find().Version; got != version {
				t.Errorf("Version = %q, want %q", got, version)
			}
			p, err := r.root().FindLibrary(driverroot.NVML)
			if want := filepath.Join(r.dir, dir, "libnvidia-ml.so."+version); err != nil || p != want {
				t.Errorf("FindLibrary() = %q, %v, want %q", p, err, want)
			}
		})
	}
}

func TestFindReadsTheLoaderCache(t *testing.T) {
	for name, prefix := range map[string][]byte{
		"in the present format":        nil,
		"behind a part in the old one": oldCache(3),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRendered(t)
			r.nodes()
			dir := "/srv/driver/lib"
			r.library(dir+"/libcuda.so."+version, "libcuda.so.1")
			r.library(dir+"/libnvidia-ml.so."+version, "libnvidia-ml.so.1")
			r.link(dir+"/libnvidia-ml.so.1", "libnvidia-ml.so."+version)
			cache := loaderCache(t, map[string]int32{
				dir + "/libcuda.so.1":              0x0303,
				dir + "/libnvidia-ml.so.1":         0x0303,
				"/srv/driver/lib32/libcuda.so.1":   0x0003,
				"/usr/lib/x86_64-linux-gnu/libz.1": 0x0303,
			})
			r.file("/etc/ld.so.cache", 0o644, append(prefix, cache...))
			c := r.find()
			if got, want := c.Libraries[0].Path, dir+"/libcuda.so."+version; got != want {
				t.Errorf("library = %q, want %q", got, want)
			}
			if p, err := r.root().FindLibrary(driverroot.NVML); err != nil || !strings.HasPrefix(p, r.dir+dir) {
				t.Errorf("FindLibrary() = %q, %v, want it in %s", p, err, r.dir+dir)
			}
		})
	}
}

func oldCache(n int) []byte {
	b := append([]byte("ld.so-1.7.0\x00"), binary.NativeEndian.AppendUint32(nil, uint32(n))...)
	b = append(b, make([]byte, 12*n)...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

func loaderCache(t *testing.T, libs map[string]int32) []byte {
	t.Helper()
	var entries []ldso.Entry
	for p, flags := range libs {
		entries = append(entries, ldso.Entry{Name: path.Base(p), Path: p, Flags: flags})
	}
	data, err := ldso.Encode(entries)
	assert.NilError(t, err)
	return data
}

func TestFindNamesWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		render func(r *rendered)
		want   []string
		not    []string
		// searched are parts of what the log has at debug.
		searched []string
	}{
		"an empty root": {
			render: func(*rendered) {},
			want: []string{
				"driver root /run/nvidia/driver is incomplete: libcuda.so.<version>, libnvidia-ml.so.<version> not found in " +
					"/run/nvidia/driver/usr/lib/x86_64-linux-gnu and ",
				" other folders (install the driver, ", "device node nvidia-uvm, device node nvidiactl not found in /run/nvidia/driver/dev, /dev (load ",
				"nvidia-modprobe -c 0 -u", "also absent: nvidia-smi",
			},
			not:      []string{"/run/nvidia/driver/opt/nvidia/lib64", "nvidia-modprobe -c 0 -u); device node"},
			searched: []string{"libcuda.so.<version>: ", "libnvidia-ml.so.<version>: ", "/run/nvidia/driver/opt/nvidia/lib64, "},
		},
		"a root without libcuda": {
			render: func(r *rendered) {
				r.driver()
				_ = os.Remove(filepath.Join(r.dir, "usr/lib/x86_64-linux-gnu/libcuda.so."+version))
			},
			want: []string{"libcuda.so.<version>", "set the driver root"},
			not:  []string{"libnvidia-ml", "nvidiactl"},
		},
		"a file in place of a library": {
			render: func(r *rendered) {
				r.driver()
				r.file("usr/lib/x86_64-linux-gnu/libcuda.so."+version, 0o644, []byte("not a library"))
			},
			want: []string{"libcuda.so." + version + " as a library for x86_64", "/run/nvidia/driver/usr/lib/x86_64-linux-gnu", "reinstall"},
		},
		"a library of another architecture": {
			render: func(r *rendered) {
				r.driver()
				r.file("usr/lib/x86_64-linux-gnu/libcuda.so."+version, 0o644, ldsotest.Library(elf.EM_386, "libcuda.so.1"))
			},
			want: []string{"libcuda.so." + version + " as a library for x86_64"},
		},
		"libraries of two versions": {
			render: func(r *rendered) {
				r.driver()
				r.library("usr/lib/x86_64-linux-gnu/libcuda.so.535.1.2", "libcuda.so.1")
				r.library("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.1.2", "libnvidia-ml.so.1")
			},
			want: []string{"one driver version", "535.1.2", version, "other driver versions"},
		},
		"a regular file in place of a node": {
			render: func(r *rendered) {
				r.driver()
				_ = os.Remove(filepath.Join(r.dir, "dev/nvidia-uvm"))
				r.file("dev/nvidia-uvm", 0o666, nil)
			},
			want: []string{"device node nvidia-uvm not found"},
			not:  []string{"nvidiactl"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRendered(t)
			c.render(r)
			content, err := r.root().Find()
			var missing *driverroot.MissingError
			if !errors.As(err, &missing) || content != nil {
				t.Fatalf("Find() = %v, %v, want nothing and a MissingError", content, err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Find() = %q, want %q in it", err, want)
				}
			}
			for _, searched := range c.searched {
				if !strings.Contains(missing.Searched(), searched) {
					t.Errorf("Searched() = %q, want %q in it", missing.Searched(), searched)
				}
			}
			for _, not := range c.not {
				if strings.Contains(err.Error(), not) {
					t.Errorf("Find() = %q, want no %q in it", err, not)
				}
			}
		})
	}
}

func TestFindTakesTheVersionOfTheKernelModule(t *testing.T) {
	r := newRendered(t)
	r.driver()
	r.library("usr/lib/x86_64-linux-gnu/libcuda.so.535.1.2", "libcuda.so.1")
	r.library("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.1.2", "libnvidia-ml.so.1")
	r.file("proc/driver/nvidia/version", 0o444,
		[]byte("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "+version+"  Release Build  (root@host)\nGCC version:  gcc version 12.2.0\n"))
	c := r.find()
	if c.Version != version || len(c.Libraries) != 2 {
		t.Errorf("Find() = version %s with %d libraries, want %s with 2", c.Version, len(c.Libraries), version)
	}
}

// The links of a root must not lead to files of the host: what they point at is
// searched for in the root.
func TestLinksStayInTheRoot(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "libcuda.so."+version)
	assert.NilError(t, os.WriteFile(secret, ldsotest.Library(elf.EM_X86_64, "libcuda.so.1"), 0o600))
	up := strings.Repeat("../", 30)
	for name, render := range map[string]func(r *rendered){
		"an absolute link of a library": func(r *rendered) {
			r.link("usr/lib/x86_64-linux-gnu/libcuda.so."+version, secret)
		},
		"a relative link of a library": func(r *rendered) {
			r.link("usr/lib/x86_64-linux-gnu/libcuda.so."+version, up+secret)
		},
		"a link of a folder": func(r *rendered) {
			r.link("usr/lib64", outside)
		},
		"a loop": func(r *rendered) {
			r.link("usr/lib/x86_64-linux-gnu/libcuda.so."+version, "libcuda.so."+version)
		},
		"a chain through another link": func(r *rendered) {
			r.link("usr/up", up)
			r.link("usr/lib/x86_64-linux-gnu/libcuda.so."+version, "../../up/"+secret)
		},
		"the cache": func(r *rendered) {
			r.link("srv", outside)
			r.file("etc/ld.so.cache", 0o644, loaderCache(t, map[string]int32{
				up + secret: 0x0303, "/../" + secret: 0x0303, "/srv/libcuda.so.1": 0x0303,
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRendered(t)
			r.library("usr/lib/x86_64-linux-gnu/libnvidia-ml.so."+version, "libnvidia-ml.so.1")
			r.nodes()
			render(r)
			content, err := r.root().Find()
			if err == nil {
				t.Fatalf("Find() = %+v, want an error", content.Libraries)
			}
			if !strings.Contains(err.Error(), "libcuda") || strings.Contains(err.Error(), outside) {
				t.Errorf("Find() = %q, want libcuda and no path outside of the root in it", err)
			}
		})
	}
}

func TestAbsoluteLinksAreFollowedInTheRoot(t *testing.T) {
	r := newRendered(t)
	r.nodes()
	real := "/usr/lib/nvidia/tesla/"
	r.library(real+"libcuda.so."+version, "libcuda.so.1")
	r.library(real+"libnvidia-ml.so."+version, "libnvidia-ml.so.1")
	for _, name := range []string{"libcuda", "libnvidia-ml"} {
		r.link("usr/lib/x86_64-linux-gnu/"+name+".so."+version, "/etc/alternatives/"+name)
		r.link("etc/alternatives/"+name, real+name+".so."+version)
	}
	want := driverroot.File{
		HostPath: "/run/nvidia/driver" + real + "libcuda.so." + version,
		Path:     "/usr/lib/x86_64-linux-gnu/libcuda.so." + version,
	}
	if d := cmp.Diff(want, r.find().Libraries[0].File, unmarked()); d != "" {
		t.Errorf("library (-want +got):\n%s", d)
	}
}

func TestDeviceRoot(t *testing.T) {
	r := newRendered(t)
	r.driver()
	root, err := driverroot.New(driverroot.Config{HostPath: "/", CtrPath: r.dir})
	assert.NilError(t, err)
	c, err := root.Find()
	assert.NilError(t, err)
	if got := c.GPUs[1].HostPath; got != "/dev/nvidia1" {
		t.Errorf("host path = %q, want /dev/nvidia1", got)
	}
	if got, want := r.root().DevRoot(), "/run/nvidia/driver"; got != want {
		t.Errorf("DevRoot() = %q, want %q", got, want)
	}
	if got, want := r.root().HostDev(), "/run/nvidia/driver/dev"; got != want {
		t.Errorf("HostDev() = %q, want %q", got, want)
	}
	without := newRendered(t)
	if got := without.root().DevRoot(); got != "/" {
		t.Errorf("DevRoot() = %q for a driver root without nodes, want /", got)
	}
	if got, want := without.root().HostDev(), filepath.Join(without.dir, "host/dev"); got != want {
		t.Errorf("HostDev() = %q, want %q", got, want)
	}
	other := newRendered(t)
	other.nodes()
	root, err = driverroot.New(driverroot.Config{HostPath: "/run/nvidia/driver", CtrPath: r.dir, DevRoot: other.dir})
	assert.NilError(t, err)
	if c, err = root.Find(); err != nil {
		t.Fatal(err)
	}
	if got, want := c.GPUs[1].HostPath, other.dir+"/dev/nvidia1"; got != want {
		t.Errorf("host path = %q, want %q", got, want)
	}
}

func TestNewRejectsRelativePaths(t *testing.T) {
	for _, cfg := range []driverroot.Config{{HostPath: "driver"}, {CtrPath: "./x"}, {DevRoot: "dev"}} {
		if _, err := driverroot.New(cfg); err == nil {
			t.Errorf("New(%+v) accepts a relative path", cfg)
		}
	}
}

func TestCtrPathOf(t *testing.T) {
	root, err := driverroot.New(driverroot.Config{HostPath: "/run/nvidia/driver", CtrPath: "/driver-root"})
	assert.NilError(t, err)
	for host, want := range map[string]string{
		"/run/nvidia/driver":               "/driver-root",
		"/run/nvidia/driver/usr/bin/x":     "/driver-root/usr/bin/x",
		"/run/nvidia/driver2/x":            "",
		"/run/nvidia/driver/../../etc/pwd": "",
	} {
		if got, ok := root.CtrPathOf(host); got != want || ok != (want != "") {
			t.Errorf("CtrPathOf(%s) = %q, %v, want %q", host, got, ok, want)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	r := newRendered(b)
	r.driver()
	lib := "/usr/lib/x86_64-linux-gnu/"
	for i := range 45 {
		name := "libnvidia-part" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		r.library(lib+name+".so."+version, name+".so.1")
	}
	for i := range 2000 {
		r.file(lib+"other/"+string(rune('a'+i%26))+string(rune('a'+i/26)), 0o644, nil)
	}
	root := r.root()
	for b.Loop() {
		if _, err := root.Find(); err != nil {
			b.Fatal(err)
		}
	}
}
