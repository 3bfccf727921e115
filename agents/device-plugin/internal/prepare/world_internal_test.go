package prepare

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"outrigger.dev/agents/device-plugin/internal/dra"
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
	// instances are the GPU instances of the devices. Their numbers are used again.
	instances map[gpu.UUID]uint32
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
	// dra is the name in the ResourceSlice of a device that a claim has, and resource is empty then.
	dra string
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
		share := func(name, as string) config.Share {
			devices := config.Selection{Refs: []config.Ref{config.Ref(ref()), config.Ref(ref())}}
			if r.IntN(2) == 0 {
				devices = config.Selection{Count: 1 + r.IntN(2)}
			}
			return config.Share{Name: name, Rename: as, Replicas: 2, Devices: devices}
		}
		shares := []config.Share{share(resource.GPU, "nvidia.com/some"), share(resource.GPU, "nvidia.com/more"), share("nvidia.com/mig-1g.5gb", "nvidia.com/parts")}
		w.config.Sharing = config.Sharing{Strategy: config.SharingTimeSlicing, Shares: shares}
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

func (w *world) newCard() *card { return &card{id: w.uuid("GPU"), instances: map[gpu.UUID]uint32{}} }

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
			g.MIG.Devices = append(g.MIG.Devices, gpu.MIGDevice{UUID: id, Index: i, GPUInstance: c.instances[id], Profile: small})
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
	layout := resource.NewLayout(w.node, w.config)
	w.agent.Choose(layout.Choices())
	w.set = layout.Set(health.View{})
}

// draNames returns the devices by their names in ResourceSlices.
func (w *world) draNames() (map[string]gpu.UUID, error) {
	mixed := resource.Derive(w.node, health.View{}, config.Config{MIGStrategy: config.MIGStrategyMixed, Filter: w.config.Filter})
	out := map[string]gpu.UUID{}
	for _, d := range dra.Inventory(w.node, mixed) {
		if other, twice := out[d.Name]; twice {
			return nil, fmt.Errorf("%s names %s and %s in ResourceSlices", d.Name, other, d.UUID)
		}
		out[d.Name] = d.UUID
	}
	return out, nil
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
