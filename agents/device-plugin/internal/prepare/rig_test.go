package prepare_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	upstream "tags.cncf.io/container-device-interface/pkg/cdi"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/prepare"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

const (
	driver = "580.95.05"
	libs   = "usr/lib/x86_64-linux-gnu/"
)

// rig is a driver root in a folder, as a driver container has it, with a
// folder of specs and a Preparer.
type rig struct {
	t        testing.TB
	dir      string
	specs    string
	log      bytes.Buffer
	preparer *prepare.Preparer
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), specs: filepath.Join(t.TempDir(), "cdi")}
	r.library("libcuda.so." + driver)
	r.library("libnvidia-ml.so." + driver)
	for _, name := range []string{"nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1"} {
		r.node("dev/" + name)
	}
	root, err := driverroot.New(driverroot.Config{
		HostPath: "/run/nvidia/driver", CtrPath: r.dir, ProcRoot: filepath.Join(r.dir, "proc"),
		SysRoot: filepath.Join(r.dir, "sys"), HostDev: filepath.Join(r.dir, "host/dev"),
	})
	assert.NilError(t, err)
	r.preparer = prepare.New(prepare.Config{Root: root, Log: slog.New(slog.NewTextHandler(&r.log, nil))})
	return r
}

// library makes the smallest file that counts as a shared library.
func (r *rig) library(name string) {
	r.t.Helper()
	machine := elf.EM_X86_64
	if runtime.GOARCH == "arm64" {
		machine = elf.EM_AARCH64
	}
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Shentsize: 64,
	})
	r.file(libs+name, b.Bytes())
}

func (r *rig) file(rel string, data []byte) {
	r.t.Helper()
	p := filepath.Join(r.dir, rel)
	assert.NilError(r.t, os.MkdirAll(filepath.Dir(p), 0o755))
	assert.NilError(r.t, os.WriteFile(p, data, 0o600))
}

func (r *rig) remove(rel string) {
	r.t.Helper()
	assert.NilError(r.t, os.Remove(filepath.Join(r.dir, rel)))
}

func (r *rig) node(rel string) {
	r.t.Helper()
	makeNode(r.t, filepath.Join(r.dir, rel))
}

// makeNode makes a character device, or skips the test where that is not allowed.
func makeNode(t testing.TB, path string) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	if errors.Is(err, unix.EPERM) {
		t.Skip("device nodes cannot be made here: CAP_MKNOD is missing")
	}
	assert.NilError(t, err)
}

// caps makes the nodes of the capabilities of all MIG devices.
func (r *rig) caps(n *gpu.Node) {
	r.t.Helper()
	made := map[int]bool{}
	for _, g := range n.GPUs {
		if g.MIG == nil {
			continue
		}
		for _, m := range g.MIG.Devices {
			for _, minor := range []int{m.GPUInstanceCap, m.ComputeInstanceCap} {
				if !made[minor] {
					r.node(fmt.Sprintf("dev/nvidia-caps/nvidia-cap%d", minor))
				}
				made[minor] = true
			}
		}
	}
}

func (r *rig) config(change ...func(*config.Config)) config.Config {
	c := config.Config{ListStrategies: []config.ListStrategy{config.ListCDICRI}, IDStrategy: config.IDUUID, CDIRoot: r.specs}
	for _, f := range change {
		f(&c)
	}
	return c
}

func envvar(c *config.Config)  { c.ListStrategies = []config.ListStrategy{config.ListEnvvar} }
func byIndex(c *config.Config) { c.IDStrategy = config.IDIndex }
func extras(c *config.Config) {
	c.GDS, c.MOFED, c.GDRCopy, c.IMEX.Channels = true, true, true, []int{0}
}

func (r *rig) prepare(n *gpu.Node, c config.Config) inventory.Prepared {
	r.t.Helper()
	out, err := r.preparer.Scan(c)(n)
	assert.NilError(r.t, err)
	return out
}

// names returns the full names of all devices, as a runtime resolves them.
func (r *rig) names() []string {
	r.t.Helper()
	cache, err := upstream.NewCache(upstream.WithSpecDirs(r.specs), upstream.WithAutoRefresh(false))
	assert.NilError(r.t, err)
	for file, errs := range cache.GetErrors() {
		r.t.Errorf("%s: %v", file, errs)
	}
	out := cache.ListDevices()
	slices.Sort(out)
	return out
}

// settle sets back the modification time of all folders, as if nothing had changed
// for long.
func (r *rig) settle() {
	r.t.Helper()
	err := filepath.WalkDir(r.dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{{Sec: 1_700_000_000}, {Sec: 1_700_000_000}}, 0)
	})
	assert.NilError(r.t, err)
}
