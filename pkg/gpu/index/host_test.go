package index_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/index"
)

// host is a node whose GPUs come and go. NVML lists them in the order of the bus.
type host struct {
	t    testing.TB
	dir  contract.Dir
	keep string
	bus  []gpu.GPU
	log  bytes.Buffer
}

// newHost returns a host with GPUs that are named like their places: "a" is in the first place.
func newHost(t testing.TB, gpus string) *host {
	t.Helper()
	root := t.TempDir()
	h := &host{t: t, keep: filepath.Join(root, "keep")}
	h.dir = contract.Dir{Root: filepath.Join(root, "run"), BootIDFile: filepath.Join(root, "boot")}
	assert.NilError(t, os.Mkdir(h.keep, 0o755))
	h.boot("one", gpus)
	return h
}

// boot begins another boot with these GPUs. It empties the run root.
func (h *host) boot(id, gpus string) {
	h.t.Helper()
	assert.NilError(h.t, os.RemoveAll(h.dir.Root))
	assert.NilError(h.t, os.Mkdir(h.dir.Root, 0o755))
	assert.NilError(h.t, os.WriteFile(h.dir.BootIDFile, []byte(id), 0o600))
	h.list(gpus)
}

// list makes NVML list GPUs, each of which is a letter. A place without a GPU is "-". A GPU whose
// UUID NVML does not read is upper case.
func (h *host) list(gpus string) {
	h.bus = nil
	for place, name := range gpus {
		g := gpu.GPU{Index: len(h.bus), UUID: gpu.UUID("GPU-" + string(name)), PCI: gpu.PCI{BusID: busID(place)}}
		if name < 'a' {
			g.UUID, g.Fault = "", &gpu.Fault{Op: "nvmlDeviceGetUUID", Reason: "GPU is lost"}
		}
		if name != '-' {
			h.bus = append(h.bus, g)
		}
	}
}

func busID(place int) string { return fmt.Sprintf("0000:%02x:00.0", 0x10+place) }

// divide gives a GPU MIG devices, each of which is a letter.
func (h *host) divide(name, devices string) {
	for i := range h.bus {
		if h.bus[i].UUID != gpu.UUID("GPU-"+name) {
			continue
		}
		h.bus[i].MIG = &gpu.MIG{Enabled: true}
		for j, d := range devices {
			h.bus[i].MIG.Devices = append(h.bus[i].MIG.Devices, gpu.MIGDevice{UUID: gpu.UUID("MIG-" + string(d)), Index: j})
		}
	}
}

// agent starts an agent.
func (h *host) agent() *index.Pins {
	return index.New(index.Config{Contract: h.dir, Dir: h.keep, Writer: "agent", Log: slog.New(slog.NewTextHandler(&h.log, nil))})
}

// node returns the node as NVML lists it.
func (h *host) node() *gpu.Node {
	n := &gpu.Node{GPUs: slices.Clone(h.bus)}
	for i := range n.GPUs {
		if m := n.GPUs[i].MIG; m != nil {
			n.GPUs[i].MIG = &gpu.MIG{Enabled: true, Devices: slices.Clone(m.Devices)}
		}
	}
	return n
}

// see returns the indices that an agent gives the devices: "0=a 1:0=x". A device that NVML has at
// another index has a "*".
func (h *host) see(agent *index.Pins, hidden ...int) string {
	n := h.node()
	var ids []string
	for _, place := range hidden {
		ids = append(ids, busID(place))
	}
	agent.Apply(n, ids...)
	var out []string
	add := func(at string, id gpu.UUID, shifted bool) {
		mark := map[bool]string{true: "*"}[shifted]
		out = append(out, at+"="+strings.TrimPrefix(strings.TrimPrefix(string(id), "GPU-"), "MIG-")+mark)
	}
	for _, g := range n.GPUs {
		add(fmt.Sprint(g.Index), g.UUID, g.Shifted)
		for j := 0; g.MIG != nil && j < len(g.MIG.Devices); j++ {
			d := g.MIG.Devices[j]
			add(fmt.Sprintf("%d:%d", g.Index, d.Index), d.UUID, d.Shifted)
		}
	}
	return strings.Join(out, " ")
}

func (h *host) want(what, want string, agent *index.Pins, hidden ...int) {
	h.t.Helper()
	if got := h.see(agent, hidden...); got != want {
		h.t.Errorf("%s: %s, want %s", what, got, want)
	}
}
