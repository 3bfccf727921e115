package prepare

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/gpu/index"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// card is a GPU, in the machine or not.
type card struct {
	id  gpu.UUID
	mig bool
	// devices are its MIG devices in NVML's order.
	devices []gpu.UUID
	// lost is set if NVML reads no UUID.
	lost bool
}

// grant is a device that a container has.
type grant struct {
	id       gpu.UUID
	resource string
	// cdi are the names that the kubelet passes to the runtime whenever the container starts. live are
	// the names that our runtime looks up in the CDI specs of this boot.
	cdi, live []string
}

// world is a node, its kubelet, and the agents that give GPUs their names.
type world struct {
	r      *rand.Rand
	dir    contract.Dir
	keep   string
	slots  [5]*card
	spare  []*card
	made   int
	boots  int
	config config.Config
	agent  *index.Pins
	used   usedNames
	held   []grant
	// node is the last node that the agent saw, and set what it advertises.
	node *gpu.Node
	set  resource.Set
	log  []string
}

func newWorld(r *rand.Rand, root string) (*world, error) {
	w := &world{r: r, dir: contract.Dir{Root: filepath.Join(root, "run"), BootIDFile: filepath.Join(root, "boot")}, keep: filepath.Join(root, "keep")}
	if err := os.Mkdir(w.keep, 0o755); err != nil { //nolint:gosec // as on a node
		return nil, err
	}
	ref := func() string { return []string{"0", "1", "2", "3", "6", "0:1", "1:0"}[r.IntN(7)] }
	w.config = config.Config{
		IDStrategy:     pick(r, config.IDIndex, config.IDIndex, config.IDUUID),
		MIGStrategy:    pick(r, config.MIGStrategyNone, config.MIGStrategySingle, config.MIGStrategyMixed),
		ListStrategies: []config.ListStrategy{pick(r, config.ListEnvvar, config.ListVolumeMounts, config.ListCDICRI, config.ListCDIAnnotations), config.ListCDICRI},
	}
	if r.IntN(2) == 0 {
		w.config.Filter.Exclude = []string{ref()}
	}
	if r.IntN(2) == 0 {
		share := config.Share{Name: resource.GPU, Rename: "nvidia.com/some", Replicas: 2, Devices: config.Selection{Refs: []config.Ref{config.Ref(ref()), config.Ref(ref())}}}
		w.config.Sharing = config.Sharing{Strategy: config.SharingTimeSlicing, Shares: []config.Share{share}}
	}
	for i := range 3 {
		w.slots[i] = w.newCard()
	}
	return w, w.boot()
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func (w *world) uuid(kind string) gpu.UUID {
	w.made++
	return gpu.UUID(fmt.Sprintf("%s-00000000-0000-4000-8000-%012x", kind, w.made))
}

func (w *world) newCard() *card { return &card{id: w.uuid("GPU")} }

// boot begins a boot, whose run root is empty.
func (w *world) boot() error {
	w.boots++
	if err := os.RemoveAll(w.dir.Root); err != nil {
		return err
	}
	if err := os.Mkdir(w.dir.Root, 0o755); err != nil { //nolint:gosec // as on a node
		return err
	}
	for i := range w.held {
		w.held[i].live = nil
	}
	w.restart()
	return os.WriteFile(w.dir.BootIDFile, fmt.Appendf(nil, "boot-%d", w.boots), 0o600)
}

// restart starts the agent.
func (w *world) restart() {
	w.agent = index.New(index.Config{Contract: w.dir, Dir: w.keep, Writer: "device-plugin"})
	w.used = usedNames{}.with(w.config)
}

// list returns the node as NVML lists it.
func (w *world) list() *gpu.Node {
	proto := gputest.Node(gputest.A100, 1).GPUs[0]
	small, _ := gpu.ParseProfile("1g.5gb")
	n := &gpu.Node{}
	for slot, c := range w.slots {
		if c == nil {
			continue
		}
		g := proto
		g.Index, g.Minor, g.UUID, g.PCI.BusID = len(n.GPUs), slot, c.id, fmt.Sprintf("0000:%02x:00.0", slot+1)
		g.MIG = &gpu.MIG{Enabled: c.mig}
		for i, id := range c.devices {
			g.MIG.Devices = append(g.MIG.Devices, gpu.MIGDevice{UUID: id, Index: i, GPUInstance: uint32(i), Profile: small}) //nolint:gosec // few
		}
		if c.lost {
			g.UUID, g.MIG, g.Fault = "", nil, &gpu.Fault{Op: "nvmlDeviceGetUUID", Reason: "GPU is lost"}
		}
		n.GPUs = append(n.GPUs, g)
	}
	return n
}

// see lets the agent read the node.
func (w *world) see() {
	w.node = w.list()
	w.agent.Apply(w.node)
	w.set = resource.Derive(w.node, health.View{}, w.config)
}

// named returns the devices by the names of some namers.
func (w *world) named(names ...cdi.Namer) (map[string]gpu.UUID, error) {
	out := map[string]gpu.UUID{}
	for i := range w.node.GPUs {
		g := &w.node.GPUs[i]
		all := []*gpu.MIGDevice{nil}
		for j := 0; g.MIG != nil && j < len(g.MIG.Devices); j++ {
			all = append(all, &g.MIG.Devices[j])
		}
		for _, m := range all {
			id := g.UUID
			if m != nil {
				id = m.UUID
			}
			for _, name := range names {
				text := name(g, m)
				if other, twice := out[text]; twice && text != "" && other != id {
					return nil, fmt.Errorf("%s names %s and %s", text, other, id)
				}
				out[text] = id
			}
		}
	}
	return out, nil
}

// check returns an error if an allocated name points to another device, or if a held device has
// another resource.
func (w *world) check() error {
	specs, err := w.named(w.used.namers()...)
	if err != nil {
		return err
	}
	toolkit, err := w.named(cdi.ByIndex, cdi.ByType, cdi.ByUUID)
	if err != nil {
		return err
	}
	now := map[gpu.UUID]string{}
	for _, r := range w.set.Resources {
		for _, d := range r.Devices {
			now[d.UUID] = r.Name
		}
	}
	for _, h := range w.held {
		for _, name := range h.cdi {
			if id := specs[name]; id != "" && id != h.id {
				return fmt.Errorf("CDI name %s of %s points to %s", name, h.id, id)
			}
		}
		for _, name := range h.live {
			if id := toolkit[name]; id != "" && id != h.id {
				return fmt.Errorf("name %s of %s points to %s in the specs of the toolkit", name, h.id, id)
			}
		}
		if r := now[h.id]; r != "" && r != h.resource {
			return fmt.Errorf("%s of %s is %s now", h.id, h.resource, r)
		}
	}
	return nil
}

// allocate gives a random device to a container.
func (w *world) allocate() error {
	if len(w.set.Resources) == 0 {
		return nil
	}
	res := pick(w.r, w.set.Resources...)
	d := pick(w.r, res.Devices...)
	a := allocate.New(res, allocate.Options{ListStrategies: w.config.ListStrategies, IDStrategy: w.config.IDStrategy, CDIAnnotationPrefix: "cdi.k8s.io/"})
	resp, err := a.Allocate([]string{d.ID(0)}, "token")
	if err != nil {
		return err
	}
	g := grant{id: d.UUID, resource: res.Name}
	add := func(qualified string) {
		_, name, _ := strings.Cut(qualified, "=")
		g.cdi = append(g.cdi, name)
	}
	for _, c := range resp.CdiDevices {
		add(c.Name)
	}
	for _, v := range resp.Annotations {
		add(v)
	}
	for _, m := range resp.Mounts {
		g.live = append(g.live, filepath.Base(m.ContainerPath))
	}
	if v := resp.Envs["NVIDIA_VISIBLE_DEVICES"]; v != "" && !strings.HasPrefix(v, "/") {
		g.live = append(g.live, v)
	}
	for _, name := range g.live {
		if id := w.atNVML(name); id != d.UUID {
			return fmt.Errorf("NVML has %s at %s, which was passed for %s", id, name, d.UUID)
		}
	}
	w.held = append(w.held, g)
	return nil
}

// atNVML returns the device that NVML has for a name.
func (w *world) atNVML(name string) gpu.UUID {
	n := w.list()
	for i, g := range n.GPUs {
		if name == fmt.Sprint(i) || name == string(g.UUID) {
			return g.UUID
		}
		for j := 0; g.MIG != nil && j < len(g.MIG.Devices); j++ {
			if id := g.MIG.Devices[j].UUID; name == fmt.Sprintf("%d:%d", i, j) || name == string(id) {
				return id
			}
		}
	}
	return ""
}

func (w *world) isHeld(id gpu.UUID) bool {
	return slices.ContainsFunc(w.held, func(g grant) bool { return g.id == id })
}
