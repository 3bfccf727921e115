package reader_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

// addPaths takes the paths of the links, and nothing else, from the source, and
// leaves it closed, as a test finds it that has not used it yet.
func addPaths(t *testing.T, src gpu.Source, node *gpu.Node) {
	t.Helper()
	got := linked(t, src)
	assert.NilError(t, src.Close())
	if d := cmp.Diff(node.Links, got.Links, cmpopts.IgnoreFields(gpu.Link{}, "Path")); d != "" {
		t.Fatalf("links (-want +got):\n%s", d)
	}
	for i, l := range got.Links {
		far := node.GPUs[l.A].NUMANode != node.GPUs[l.B].NUMANode
		if far != (l.Path == gpu.PathSystem) || l.Path == gpu.PathUndetermined {
			t.Errorf("GPUs %d and %d: path %q, across NUMA nodes: %v", l.A, l.B, l.Path, far)
		}
		node.Links[i].Path = l.Path
	}
}

func TestWatchRegistersEachGPUOnce(t *testing.T) {
	s := newSim(t, "--gpus=8", "--model=l4")
	src := s.source(nil)
	defer closeSource(t, src)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := src.Watch(ctx, func(gpu.Event) { cancel() })
	assert.NilError(t, err)
	if calls := s.calls(); calls["nvmlDeviceRegisterEvents"] != 8 || calls["nvmlEventSetCreate"] != 1 || calls["nvmlEventSetFree"] != 1 {
		t.Errorf("calls = %v, want 8 registrations in one event set", calls)
	}
}

func TestNoDriverSaysWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *sim)
		want   []string
	}{
		"no kernel module": {
			change: func(s *sim) { s.run("set", "driver=off") },
			want:   []string{"nvmlInit_v2", "libnvidia-ml.so.1", "modprobe nvidia"},
		},
		"no device nodes": {
			change: func(s *sim) { remove(s.t, filepath.Join(s.root, "dev", "nvidiactl")) },
			want:   []string{"module is loaded", "/dev/nvidiactl"},
		},
		"no library": {
			change: func(s *sim) { s.lib = filepath.Join(s.root, "libnvidia-ml.so.1") },
			want:   []string{"libnvidia-ml.so.1", "No such file", "install the driver"},
		},
		"a library of that name without NVML": {
			change: func(s *sim) { s.lib = libm(s.t) },
			want:   []string{"it lacks nvmlInit_v2", "R450"},
		},
		"a version that does not fit the module": {
			change: func(s *sim) { s.run("set", "nvmlInit_v2.return=18") },
			want:   []string{"different versions", "reboot"},
		},
		"no permission": {
			change: func(s *sim) { s.run("set", "nvmlInit_v2.return=4") },
			want:   []string{"may not open", "privileged"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "--gpus=1")
			c.change(s)
			src := s.source(nil)
			defer closeSource(t, src)
			_, err := src.Snapshot(t.Context())
			assert.ErrorIs(t, err, gpu.ErrNoDriver)
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Snapshot() = %q, want %q in it", err, want)
				}
			}
		})
	}
}

func TestGPUsWithoutNodesAreReported(t *testing.T) {
	s := newSim(t, "--gpus=3", "--model=l4")
	remove(t, filepath.Join(s.root, "dev", "nvidia1"))
	var log strings.Builder
	src := s.reader(nvml.Config{LibraryPath: s.lib, Log: slog.New(slog.NewTextHandler(&log, nil))})
	defer closeSource(t, src)
	if got := snapshot(t, src); len(got.GPUs) != 2 {
		t.Fatalf("the node has %d GPUs, want the 2 with nodes", len(got.GPUs))
	}
	snapshot(t, src)
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "this process has no /dev/nvidia1]") {
		t.Errorf("log is %q, want one line that names /dev/nvidia1", got)
	}
}

func TestDriverThatComesLater(t *testing.T) {
	s := newSim(t, "--gpus=2", "--driver=off")
	src := s.source(nil)
	defer closeSource(t, src)
	if _, err := src.Snapshot(t.Context()); !errors.Is(err, gpu.ErrNoDriver) {
		t.Fatalf("Snapshot() = %v, want %v", err, gpu.ErrNoDriver)
	}
	s.run("set", "driver=on")
	if got := snapshot(t, src); len(got.GPUs) != 2 {
		t.Errorf("the node has %d GPUs, want 2", len(got.GPUs))
	}
}

func TestReplacedDriverAsksForARestart(t *testing.T) {
	s := newSim(t, "--gpus=1")
	root, err := driverroot.New(driverroot.Config{HostPath: filepath.Join(s.root, "driver")})
	assert.NilError(t, err)
	src := s.reader(nvml.Config{DriverRoot: root})
	snapshot(t, src)
	closeSource(t, src)
	dir := filepath.Join(s.root, "driver/usr/lib/x86_64-linux-gnu")
	matches, err := filepath.Glob(dir + "/libnvidia-ml.so.*.*")
	if err != nil || len(matches) != 1 {
		t.Fatalf("libraries of the simulated driver: %q, %v", matches, err)
	}
	assert.NilError(t, os.Rename(matches[0], dir+"/libnvidia-ml.so.999.1"))
	remove(t, dir+"/libnvidia-ml.so.1")
	assert.NilError(t, os.Symlink("libnvidia-ml.so.999.1", dir+"/libnvidia-ml.so.1"))
	_, err = src.Snapshot(t.Context())
	if !errors.Is(err, gpu.ErrDriverChanged) || !errors.Is(err, gpu.ErrNoDriver) || !strings.Contains(err.Error(), "restart") {
		t.Errorf("Snapshot() = %v, want %v and %v", err, gpu.ErrDriverChanged, gpu.ErrNoDriver)
	}
}

// What is needed to use a GPU is its handle, its MIG mode, and that it is not lost. The
// kernel driver knows the rest as well.
func TestGPUsThatCannotBeUsedAreFaulty(t *testing.T) {
	for symbol, code := range map[string]string{
		"nvmlDeviceGetMigMode":        "999",
		"nvmlDeviceGetUUID":           "15",
		"nvmlDeviceGetPciInfo_v3":     "16",
		"nvmlDeviceGetBrand":          "15",
		"nvmlDeviceGetMemoryInfo":     "15",
		"nvmlDeviceGetGpuFabricInfoV": "15",
		"nvmlDeviceGetFieldValues":    "16",
	} {
		t.Run(symbol, func(t *testing.T) {
			s := newSim(t, "--gpus=2", "--model=a100-40")
			want := s.node("Nvidia", "Ampere")
			s.run("set", symbol+".return="+code)
			src := s.source(nil)
			defer closeSource(t, src)
			node := snapshot(t, src)
			for i, g := range node.GPUs {
				if g.Fault == nil || g.Fault.Op != symbol || g.Missing != nil {
					t.Errorf("GPU %d has the fault %+v and misses %v, want a fault of %s", i, g.Fault, g.Missing, symbol)
				}
				if w := want.GPUs[i]; g.UUID != w.UUID || g.Minor != w.Minor || g.PCI.BusID != w.PCI.BusID || g.Name != w.Name {
					t.Errorf("GPU %d is %s, minor %d, at %s, %q, want %s, %d, %s, %q",
						i, g.UUID, g.Minor, g.PCI.BusID, g.Name, w.UUID, w.Minor, w.PCI.BusID, w.Name)
				}
			}
			if node := linked(t, src); len(node.Links) > 0 {
				t.Errorf("faulty GPUs have links: %v", node.Links)
			}
		})
	}
}

func TestWhatCannotBeReadCostsNoGPU(t *testing.T) {
	for symbol, missing := range map[string]func(*gpu.GPU){
		"nvmlDeviceGetUUID":                  func(*gpu.GPU) {}, // the kernel driver knows it
		"nvmlDeviceGetMinorNumber":           func(*gpu.GPU) {},
		"nvmlDeviceGetName":                  func(*gpu.GPU) {},
		"nvmlDeviceGetPciInfo_v3":            func(g *gpu.GPU) { g.PCI.DeviceID, g.PCI.SubsystemID = 0, 0 },
		"nvmlDeviceGetCudaComputeCapability": func(g *gpu.GPU) { g.ComputeCapability = gpu.Version{} },
		"nvmlDeviceGetBrand":                 func(g *gpu.GPU) { g.Brand = "" },
		"nvmlDeviceGetArchitecture":          func(g *gpu.GPU) { g.Architecture = "" },
		"nvmlDeviceGetMemoryInfo":            func(g *gpu.GPU) { g.MemoryBytes = 0 },
		"nvmlDeviceGetGpuFabricInfoV":        func(g *gpu.GPU) { g.Fabric = nil },
		"nvmlDeviceGetFieldValues":           func(g *gpu.GPU) { g.Recovery = gpu.RecoveryUnknown },
	} {
		for _, code := range []string{"4", "999"} {
			t.Run(symbol+" answers "+code, func(t *testing.T) {
				s := newSim(t, "--gpus=2", "--model=h100-80")
				want := s.node("Nvidia", "Hopper")
				s.run("set", symbol+".return="+code)
				src := s.source(nil)
				defer closeSource(t, src)
				node := snapshot(t, src)
				for i, g := range node.GPUs {
					if len(g.Missing) != 1 || g.Missing[0].Op != symbol || node.Complete() {
						t.Errorf("GPU %d misses %v, want %s", i, g.Missing, symbol)
					}
					g.Missing = nil
					missing(&want.GPUs[i])
					if d := cmp.Diff(want.GPUs[i], g); d != "" {
						t.Errorf("GPU %d (-want +got):\n%s", i, d)
					}
				}
				s.run("set", symbol+".return=0")
				healed := linked(t, src)
				want = s.node("Nvidia", "Hopper")
				want.Links[0].Path = healed.Links[0].Path
				if d := cmp.Diff(want, healed); d != "" || !healed.Complete() {
					t.Errorf("after it answers again (-want +got):\n%s", d)
				}
				s.run("set", symbol+".return="+code)
				for i, g := range snapshot(t, src).GPUs {
					g.Missing = nil
					if d := cmp.Diff(want.GPUs[i], g); d != "" {
						t.Errorf("GPU %d fails again, and was not kept (-want +got):\n%s", i, d)
					}
				}
			})
		}
	}
}

func TestWhatCannotBeReadOfTheDriverCostsNoGPU(t *testing.T) {
	for symbol, missing := range map[string]func(*gpu.Driver){
		"nvmlSystemGetDriverVersion":        func(*gpu.Driver) {}, // the kernel driver knows it
		"nvmlSystemGetNVMLVersion":          func(d *gpu.Driver) { d.NVMLVersion = "" },
		"nvmlSystemGetCudaDriverVersion_v2": func(d *gpu.Driver) { d.CUDA = gpu.Version{} },
	} {
		for _, code := range []string{"4", "9", "999"} {
			t.Run(symbol+" answers "+code, func(t *testing.T) {
				s := newSim(t, "--gpus=2", "--model=l4")
				want := s.node("", "").Driver
				s.run("set", symbol+".return="+code)
				src := s.source(nil)
				defer closeSource(t, src)
				node := snapshot(t, src)
				if len(node.GPUs) != 2 || node.GPUs[0].Fault != nil || len(node.Missing) != 1 || node.Missing[0].Op != symbol || node.Complete() {
					t.Errorf("the node is %+v, want two GPUs that work, and %s missing", node, symbol)
				}
				missing(&want)
				if d := cmp.Diff(want, node.Driver); d != "" {
					t.Errorf("driver (-want +got):\n%s", d)
				}
				s.run("set", symbol+".return=0")
				if healed := snapshot(t, src); healed.Driver != s.node("", "").Driver || !healed.Complete() {
					t.Errorf("after it answers again: driver %+v, missing %v", healed.Driver, healed.Missing)
				}
			})
		}
	}
}

func TestOptionalAnswersMayBeMissing(t *testing.T) {
	s := newSim(t, "--gpus=2", "--model=a100-40")
	for _, symbol := range []string{"nvmlDeviceGetMigMode", "nvmlDeviceGetBrand", "nvmlDeviceGetArchitecture", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetNvLinkState", "nvmlDeviceGetFieldValues"} {
		s.run("set", symbol+".return=3") // NOT_SUPPORTED
	}
	src := s.source(nil)
	defer closeSource(t, src)
	node := linked(t, src)
	for _, g := range node.GPUs {
		if g.Fault != nil || g.MIG != nil || g.Brand != "" || g.Architecture != "" || g.MemoryBytes != 0 {
			t.Errorf("GPU = %+v, want one that works and lacks what is not supported", g)
		}
	}
	if !node.Complete() {
		t.Error("the node is not complete, want one that is not read again for what is not supported")
	}
	if len(node.Links) != 1 || node.Links[0].NVSwitch != 0 || node.Links[0].Path == "" {
		t.Errorf("links = %+v, want one without NVLinks", node.Links)
	}
}

func TestLinksAreKnownAsFarAsTheyCanBeRead(t *testing.T) {
	s := newSim(t, "--gpus=2", "--model=h100-80")
	s.run("set", "nvmlDeviceGetTopologyCommonAncestor.return=999")
	src := s.source(nil)
	defer closeSource(t, src)
	node, err := gpu.Linked(t.Context(), src, snapshot(t, src))
	if err == nil || len(node.Links) != 1 || node.Links[0].NVSwitch != 18 || node.Links[0].Path != "" {
		t.Errorf("Linked() = %+v, %v, want a link without its path, and an error", node.Links, err)
	}
	s.run("set", "nvmlDeviceGetTopologyCommonAncestor.return=0")
	if links := linked(t, src).Links; links[0].Path == "" {
		t.Errorf("links = %+v after it answers again", links)
	}
}

func TestPluggedGPUAppears(t *testing.T) {
	s := newSim(t, "--gpus=2", "--model=l4")
	src := s.source(nil)
	defer closeSource(t, src)
	snapshot(t, src)
	s.run("plug", "--model=l4")
	node := snapshot(t, src)
	if len(node.GPUs) != 3 {
		t.Errorf("the node has %d GPUs, want 3", len(node.GPUs))
	}
	s.run("unplug", string(node.GPUs[0].UUID))
	if got := snapshot(t, src); len(got.GPUs) != 2 || got.GPUs[0].UUID != node.GPUs[1].UUID {
		t.Errorf("GPUs = %+v, want the last two of %+v", got.GPUs, node.GPUs)
	}
}

func TestPluggedGPUEndsTheWatch(t *testing.T) {
	s := newSim(t, "--gpus=1", "--model=l4")
	src := s.source(nil)
	defer closeSource(t, src)
	err := src.Watch(t.Context(), func(e gpu.Event) {
		s.run("plug", "--model=l4")
		snapshot(t, src)
	})
	assert.ErrorIs(t, err, gpu.ErrClosed)
	if got := snapshot(t, src); len(got.GPUs) != 2 {
		t.Errorf("the node has %d GPUs, want 2", len(got.GPUs))
	}
}

func TestClaimedLeaseFreesNVML(t *testing.T) {
	s := newSim(t, "--gpus=2")
	dir := contract.Dir{Root: t.TempDir()}
	src := s.source(dir.NVML())
	defer closeSource(t, src)
	watched, done := make(chan gpu.Event, 8), make(chan error, 1)
	go func() { done <- src.Watch(t.Context(), func(e gpu.Event) { watched <- e }) }()
	<-watched
	grant, err := dir.NVML().Claim(t.Context(), "test", "reset of a GPU", 10*time.Second)
	assert.NilError(t, err)
	assert.ErrorIs(t, <-done, gpu.ErrClosed)
	if calls := s.calls(); calls["nvmlInit_v2"] != calls["nvmlShutdown"] {
		t.Errorf("NVML is in use while the lease is claimed: %v", calls)
	}
	if _, err := src.Snapshot(t.Context()); !errors.Is(err, contract.ErrClaimed) || !strings.Contains(err.Error(), "reset of a GPU") {
		t.Errorf("Snapshot() = %v, want %v and its reason", err, contract.ErrClaimed)
	}
	assert.NilError(t, grant.Release())
	snapshot(t, src)
}

func snapshot(t *testing.T, src gpu.Source) *gpu.Node {
	t.Helper()
	node, err := src.Snapshot(t.Context())
	assert.NilError(t, err)
	return node
}

// linked is a snapshot with its links.
func linked(t *testing.T, src gpu.Source) *gpu.Node {
	t.Helper()
	node, err := gpu.Linked(t.Context(), src, snapshot(t, src))
	assert.NilError(t, err)
	return node
}

func closeSource(t *testing.T, src gpu.Source) {
	t.Helper()
	assert.NilError(t, src.Close())
}

func remove(t testing.TB, path string) {
	t.Helper()
	assert.NilError(t, os.Remove(path))
}

// libm returns a library that every machine with glibc has.
func libm(t testing.TB) string {
	t.Helper()
	root, err := driverroot.New(driverroot.Config{})
	assert.NilError(t, err)
	p, err := root.FindLibrary("libm.so.6")
	assert.NilError(t, err)
	return p
}
