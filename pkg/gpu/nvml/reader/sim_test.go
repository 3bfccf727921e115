package reader_test

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/index"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/reader"
	"outrigger.dev/pkg/gpu/simtest"
)

// The times between checks of what NVML does not report, in tests.
const (
	rest  = 500 * time.Millisecond
	probe = 100 * time.Millisecond
)

// sim is a simulated node in a folder. NVML is loaded into the test itself,
// which finds the node by the environment.
type sim struct {
	t    testing.TB
	made *simtest.Node
	root string
	lib  string
}

// newSim creates a node, for example with "--gpus=8".
func newSim(t testing.TB, args ...string) *sim {
	t.Helper()
	n := simtest.New(t, args...)
	t.Setenv("GPU_SIM_STATE", filepath.Join(n.Root, "state"))
	t.Setenv("GPU_SIM_DEV", filepath.Join(n.Root, "dev"))
	return &sim{t: t, made: n, root: n.Root, lib: filepath.Join(n.Bin, "lib", "libnvidia-ml.so.1")}
}

// run runs a command of gpu-sim, the first argument, on the node.
func (s *sim) run(args ...string) []byte {
	s.t.Helper()
	return s.made.Run(args...)
}

// source returns a source that sees the node.
func (s *sim) source(lease *contract.Lease) *reader.Reader {
	s.t.Helper()
	return s.reader(nvml.Config{LibraryPath: s.lib, Lease: lease})
}

// reader returns a reader of the node on a session.
func (s *sim) reader(cfg nvml.Config) *reader.Reader {
	s.t.Helper()
	return s.pinnedReader(cfg, nil)
}

// pinned returns a source with the indices of pins.
func (s *sim) pinned(pins *index.Pins) *reader.Reader {
	s.t.Helper()
	return s.pinnedReader(nvml.Config{LibraryPath: s.lib}, pins)
}

func (s *sim) pinnedReader(cfg nvml.Config, pins *index.Pins) *reader.Reader {
	s.t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(s.t.Output(), nil))
	}
	cfg.Proc = driverproc.Root(filepath.Join(s.root, "proc"))
	session, err := nvml.New(cfg)
	assert.NilError(s.t, err)
	s.t.Cleanup(func() { s.down(session) })
	src := reader.New(reader.Config{Session: session, Proc: cfg.Proc, SysRoot: filepath.Join(s.root, "sys"), Pins: pins, Log: cfg.Log})
	return src.Hurry(rest, probe)
}

// down waits until a session that is closed has shut NVML down: Close does not wait for a thread that
// waits for an event. go-nvml has variables that all libraries of a process share.
func (s *sim) down(session *nvml.Session) {
	s.t.Helper()
	for end := time.Now().Add(5 * time.Minute); !session.Idle(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Error("NVML is still in use after a minute")
			return
		}
	}
}

// shown is what gpu-sim reports of a node.
type shown struct {
	Driver struct {
		Version     string      `json:"version"`
		NVMLVersion string      `json:"nvmlVersion"`
		CUDA        gpu.Version `json:"cuda"`
	} `json:"driver"`
	GPUs []struct {
		Index             int         `json:"index"`
		UUID              gpu.UUID    `json:"uuid"`
		Minor             int         `json:"minor"`
		Name              string      `json:"name"`
		BusID             string      `json:"busId"`
		PCIID             uint32      `json:"pciId"`
		SubsystemID       uint32      `json:"subsystemId"`
		NUMANode          int         `json:"numaNode"`
		MemoryBytes       uint64      `json:"memoryBytes"`
		ComputeCapability gpu.Version `json:"computeCapability"`
		MIGCapable        bool        `json:"migCapable"`
		NVLinks           int         `json:"nvLinks"`
		Fabric            string      `json:"fabric"`
	} `json:"gpus"`
}

// node returns the node as the simulator knows it. It does not report the paths
// between GPUs; those are checked on their own.
func (s *sim) node(brand, architecture string) *gpu.Node {
	s.t.Helper()
	var in shown
	assert.NilError(s.t, json.Unmarshal(s.run("show", "--json"), &in))
	out := &gpu.Node{Driver: gpu.Driver(in.Driver)}
	for _, g := range in.GPUs {
		have := gpu.GPU{
			Index: g.Index, UUID: g.UUID, Minor: g.Minor, Name: g.Name, Brand: brand, Architecture: architecture,
			PCI:      gpu.PCI{BusID: g.BusID, DeviceID: g.PCIID, SubsystemID: g.SubsystemID},
			NUMANode: g.NUMANode, MemoryBytes: g.MemoryBytes, ComputeCapability: g.ComputeCapability,
			Recovery: gpu.RecoveryNone, Fabric: joined(g.Fabric),
		}
		if g.MIGCapable {
			have.MIG = &gpu.MIG{}
		}
		out.GPUs = append(out.GPUs, have)
	}
	for a := range in.GPUs {
		for b := a + 1; b < len(in.GPUs); b++ {
			out.Links = append(out.Links, gpu.Link{A: a, B: b, NVSwitch: in.GPUs[a].NVLinks})
		}
	}
	return out
}

// calls returns how often each symbol was called, and sets the counters to zero.
func (s *sim) calls() map[string]int {
	s.t.Helper()
	return s.made.Calls()
}
