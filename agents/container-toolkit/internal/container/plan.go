package container

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/cdihook"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/driverroot"
)

// Request is what a container asks for: the flags of nvidia-container-cli configure.
type Request struct {
	// Devices names GPUs and MIG devices, or is "all"; none for the driver alone.
	Devices []string
	// Capabilities of the driver: without any, the container gets device nodes only.
	Capabilities driverroot.Capabilities
	// MIGConfig and MIGMonitor grant to change, and to watch, the MIG instances of the
	// chosen GPUs.
	MIGConfig, MIGMonitor bool
	// IMEX are the numbers of IMEX channels.
	IMEX []int
}

// Plan is what a container gets: a pure function of the node and the request.
type Plan struct {
	// Nodes are the device nodes that appear in the container, and that its cgroup allows.
	Nodes []driverroot.DeviceNode
	// Files are mounted read-only; Sockets may be written to.
	Files, Sockets []driverroot.File
	// Links are made in the container, beside those of SONAMEs.
	Links []cdihook.Link
	// LibraryDir is the folder of the container that has the libraries.
	LibraryDir string
	// Screen is set for a container that draws, and reads application profiles.
	Screen bool
	// Proc is what the container sees of the driver's folder in /proc.
	Proc ProcView
}

// ProcView is what a container sees of /proc/driver/nvidia.
type ProcView struct {
	// GPUs are PCI bus IDs, whose folders are visible.
	GPUs []string
	// Capabilities are paths below the folder capabilities.
	Capabilities []string
}

// planner builds a Plan.
type planner struct {
	content *driverroot.Content
	request Request
	plan    *Plan
}

// newPlan derives what a container gets. Debian tells whether its distribution is of
// Debian's family, which has libraries in other folders than all others.
func newPlan(c *driverroot.Content, gpus []GPU, specs namer, r Request, debian bool) (*Plan, error) {
	chosen, err := choose(gpus, specs, r.Devices)
	if err != nil {
		return nil, err
	}
	dirs := driverroot.LoaderDirs()
	p := &planner{content: c, request: r, plan: &Plan{
		LibraryDir: dirs[1],
		Screen:     r.Capabilities&(driverroot.Graphics|driverroot.Display) != 0,
	}}
	if debian {
		p.plan.LibraryDir = dirs[0]
	}
	p.control()
	for _, g := range chosen {
		if err := p.gpu(g); err != nil {
			return nil, err
		}
	}
	if err := p.management(); err != nil {
		return nil, err
	}
	p.libraries()
	p.files()
	return p.sorted(), nil
}

// control adds the nodes that all GPUs share.
func (p *planner) control() {
	needs := driverroot.NewTable()
	for _, n := range p.content.Control {
		// Every container with the driver has the control node, whatever it does with it.
		if c, _ := needs.Capabilities(n.Path); path.Base(n.Path) == "nvidiactl" || p.request.Capabilities.Admits(c) {
			p.plan.Nodes = append(p.plan.Nodes, n)
		}
	}
}

func (p *planner) gpu(g Chosen) error {
	node, ok := p.content.GPUs[g.Minor]
	if !ok {
		return fmt.Errorf("give GPU %d (%s) to the container: device node %s is missing (make it: nvidia-modprobe -c %d)", g.Index, g.BusID, nodePath(g.Minor), g.Minor)
	}
	p.plan.Nodes = append(p.plan.Nodes, node)
	p.plan.Proc.GPUs = append(p.plan.Proc.GPUs, g.BusID)
	for _, in := range g.Instances {
		gi := fmt.Sprintf("gpu%d/mig/gi%d", g.Minor, in.GPUInstance)
		if err := p.capability(in.GPUInstanceCap, gi+"/access"); err != nil {
			return err
		}
		if err := p.capability(in.ComputeInstanceCap, fmt.Sprintf("%s/ci%d/access", gi, in.ComputeInstance)); err != nil {
			return err
		}
	}
	if p.plan.Screen && g.Whole {
		p.plan.Nodes = append(p.plan.Nodes, p.content.DRM[g.BusID]...)
	}
	if p.request.MIGConfig && g.Whole {
		p.plan.Proc.Capabilities = append(p.plan.Proc.Capabilities, fmt.Sprintf("gpu%d", g.Minor))
	}
	return nil
}

// capability adds the node that grants a capability, and the file in /proc that names it.
func (p *planner) capability(minor int, file string) error {
	node, ok := p.content.Caps[minor]
	if !ok {
		return fmt.Errorf("give MIG devices to the container: device node %s is missing (make it: nvidia-modprobe -f /proc/driver/nvidia/capabilities/%s)", capPath(minor), file)
	}
	p.plan.Nodes = append(p.plan.Nodes, node)
	p.plan.Proc.Capabilities = append(p.plan.Proc.Capabilities, file)
	return nil
}

// management adds what changes and watches MIG instances, and what connects nodes.
func (p *planner) management() error {
	for _, c := range []struct {
		asked bool
		minor int
		file  string
	}{
		{p.request.MIGConfig, driverproc.MIGConfigMinor, "mig/config"},
		{p.request.MIGMonitor, driverproc.MIGMonitorMinor, "mig/monitor"},
	} {
		if !c.asked {
			continue
		}
		if err := p.capability(c.minor, c.file); err != nil {
			return err
		}
	}
	for _, channel := range p.request.IMEX {
		node, ok := p.content.Extras.IMEX[channel]
		if !ok {
			return fmt.Errorf("give IMEX channel %d to the container: device node /dev/nvidia-caps-imex-channels/channel%d is missing (make it: nvidia-modprobe -i %d:1)", channel, channel, channel)
		}
		p.plan.Nodes = append(p.plan.Nodes, node)
	}
	return nil
}

// libraries adds the libraries, and the links that the loader's cache does not make.
func (p *planner) libraries() {
	var holders []string
	for _, l := range p.content.Libraries {
		if base := path.Base(l.Path); strings.HasPrefix(base, "libcuda.so.") || strings.HasPrefix(base, "libnvidia-ml.so.") {
			holders = append(holders, path.Dir(l.Path))
		}
	}
	for _, l := range p.content.Libraries {
		if !p.request.Capabilities.Admits(l.Capabilities) {
			continue
		}
		f := l.File
		f.Path = p.place(l, holders)
		p.plan.Files = append(p.plan.Files, f)
		dir, target := path.Split(f.Path)
		for _, name := range l.Names {
			p.plan.Links = append(p.plan.Links, cdihook.Link{Target: strings.Repeat("../", strings.Count(name, "/")) + target, Path: dir + name})
			target = name
		}
	}
}

// place returns where a library goes: plug-ins keep their folder below that of the
// libraries, and plug-ins outside of it keep their place.
func (p *planner) place(l driverroot.Library, holders []string) string {
	if !l.PlugIn() {
		return path.Join(p.plan.LibraryDir, path.Base(l.Path))
	}
	for _, h := range holders {
		if rel, ok := strings.CutPrefix(l.Path, h+"/"); ok {
			return path.Join(p.plan.LibraryDir, rel)
		}
	}
	return l.Path
}

// files adds everything else that the driver consists of.
func (p *planner) files() {
	unwanted := func(f driverroot.File) bool { return !p.request.Capabilities.Admits(f.Capabilities) }
	binaries := slices.DeleteFunc(slices.Clone(p.content.Binaries), unwanted)
	for i := range binaries {
		binaries[i].Path = path.Join("/usr/bin", path.Base(binaries[i].Path))
	}
	more := slices.DeleteFunc(slices.Concat(p.content.Firmware, p.content.Configs), unwanted)
	p.plan.Files = slices.Concat(p.plan.Files, binaries, more)
	p.plan.Sockets = slices.DeleteFunc(slices.Clone(p.content.Sockets), unwanted)
}

// sorted returns the plan in an order that depends on its content only.
func (p *planner) sorted() *Plan {
	out := p.plan
	out.Nodes = unique(out.Nodes, func(n driverroot.DeviceNode) string { return n.Path })
	out.Files = unique(out.Files, func(f driverroot.File) string { return f.Path })
	out.Sockets = unique(out.Sockets, func(f driverroot.File) string { return f.Path })
	slices.Sort(out.Proc.Capabilities)
	out.Proc.Capabilities = slices.Compact(out.Proc.Capabilities)
	return out
}

// unique orders list by key and leaves one for each key.
func unique[T any](list []T, key func(T) string) []T {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return slices.CompactFunc(list, func(a, b T) bool { return key(a) == key(b) })
}
