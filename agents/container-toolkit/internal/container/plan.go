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

// Request has the values of the flags of nvidia-container-cli configure.
type Request struct {
	// Devices has names of GPUs and MIG devices, or "all". Without devices, the container only gets the
	// driver.
	Devices []string
	// Capabilities selects parts of the driver. Without capabilities, the container only gets device
	// nodes.
	Capabilities driverroot.Capabilities
	// MIGConfig grants the right to change the MIG instances of the chosen GPUs, and MIGMonitor the
	// right to watch them.
	MIGConfig, MIGMonitor bool
	// IMEX has the numbers of IMEX channels.
	IMEX []int
}

// Plan describes the changes of a container. It is a pure function of the node and the request.
type Plan struct {
	// Nodes has the device nodes that appear in the container and that its cgroup allows.
	Nodes []driverroot.DeviceNode
	// Files are mounted read-only. Sockets are mounted writable.
	Files, Sockets []driverroot.File
	// Links are created in the container, in addition to the links for SONAMEs.
	Links []cdihook.Link
	// LibraryDir is the folder for the libraries in the container.
	LibraryDir string
	// Screen is set for a container with graphics or display, which reads application profiles.
	Screen bool
	// Proc is the container's view of the driver's folder in /proc.
	Proc ProcView
}

// ProcView selects the visible parts of /proc/driver/nvidia.
type ProcView struct {
	// GPUs has the PCI bus IDs whose folders are visible.
	GPUs []string
	// Capabilities has visible paths below the folder capabilities.
	Capabilities []string
}

// planner builds a Plan.
type planner struct {
	content *driverroot.Content
	request Request
	plan    *Plan
}

// newPlan derives the plan of a container. debian is true for an image of Debian's family, which
// has its libraries in other folders.
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

// control adds the device nodes that all GPUs share.
func (p *planner) control() {
	needs := driverroot.NewTable()
	for _, n := range p.content.Control {
		// Every container with the driver gets the control node, whatever its capabilities are.
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

// capability adds the device node of a capability, and the file in /proc that names it.
func (p *planner) capability(minor int, file string) error {
	node, ok := p.content.Caps[minor]
	if !ok {
		return fmt.Errorf("give MIG devices to the container: device node %s is missing (make it: nvidia-modprobe -f /proc/driver/nvidia/capabilities/%s)", capPath(minor), file)
	}
	p.plan.Nodes = append(p.plan.Nodes, node)
	p.plan.Proc.Capabilities = append(p.plan.Proc.Capabilities, file)
	return nil
}

// management adds the capabilities to change and watch MIG instances, and IMEX channels.
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

// libraries adds the libraries, and the links that the loader's cache does not create.
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

// place returns the path of a library in the container. A plug-in below the driver's library folder
// keeps its relative path. A plug-in outside of it keeps its absolute path.
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

// files adds programs, firmware, configuration files and sockets.
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

// sorted returns the plan in a deterministic order.
func (p *planner) sorted() *Plan {
	out := p.plan
	out.Nodes = unique(out.Nodes, func(n driverroot.DeviceNode) string { return n.Path })
	out.Files = unique(out.Files, func(f driverroot.File) string { return f.Path })
	out.Sockets = unique(out.Sockets, func(f driverroot.File) string { return f.Path })
	slices.Sort(out.Proc.Capabilities)
	out.Proc.Capabilities = slices.Compact(out.Proc.Capabilities)
	return out
}

// unique sorts list by key and removes duplicates.
func unique[T any](list []T, key func(T) string) []T {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return slices.CompactFunc(list, func(a, b T) bool { return key(a) == key(b) })
}
