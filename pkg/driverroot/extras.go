package driverroot

// Extras holds optional hardware that containers may use together with GPUs, as in the modes
// imex-channel, gds, mofed, gdrcopy and nvswitch of NVIDIA's container toolkit.
type Extras struct {
	// IMEX holds the channels for memory exchange within the fabric, by number.
	IMEX map[int]DeviceNode
	// GDS is GPUDirect Storage.
	GDS Part
	// MOFED is the RDMA stack of network adapters.
	MOFED Part
	// GDRCopy gives the CPU access to the memory of GPUs.
	GDRCopy Part
	// NVSwitch holds the switches of an NVLink fabric.
	NVSwitch Part

	mark searchState
}

// Outdated reports whether the extras may have changed since they were read.
func (x *Extras) Outdated() bool { return x.mark.outdated() }

// Watched returns the folders whose changes can make the extras outdated (see Content.Watched).
func (x *Extras) Watched() []string { return x.mark.watched() }

// Part is one piece of optional hardware. If the hardware is absent, it has no nodes and no files.
type Part struct {
	Nodes []DeviceNode
	Files []File
}

// Found reports whether the hardware is present.
func (p Part) Found() bool { return len(p.Nodes) > 0 }

var (
	switchNode = pattern(`^nvidia-nvswitch(?:ctl|\d+)$`)

	gdsNode   = pattern(`^nvidia-fs[0-9A-Za-z_-]*$`)
	verbsNode = pattern(`^uverbs\d+$`)
)

// extras finds the optional hardware in the device root. It also searches the host's folder of
// device nodes, except for the IMEX channels and the switches, because drivers other than the GPU
// driver make the other nodes.
func (r *Root) extras(own devRoot) Extras {
	x := Extras{
		IMEX:     own.nodesByNumber("nvidia-caps-imex-channels", imexNode),
		NVSwitch: Part{Nodes: own.matching(".", switchNode)},
	}
	for _, d := range []devRoot{own, r.hostRoot()} {
		if !x.GDS.Found() {
			x.GDS.Nodes = d.matching(".", gdsNode)
		}
		if !x.MOFED.Found() {
			x.MOFED = d.mofed()
		}
		if n, ok := d.node("gdrdrv"); ok && !x.GDRCopy.Found() {
			x.GDRCopy.Nodes = []DeviceNode{n}
		}
		if d.dev == r.hostDev {
			break
		}
	}
	if x.GDS.Found() {
		x.GDS.Files = r.gdsFiles()
	}
	return x
}

// mofed finds the nodes through which programs use RDMA adapters. The node of the connection
// manager alone is useless.
func (d devRoot) mofed() Part {
	nodes := d.matching("infiniband", verbsNode)
	if len(nodes) == 0 {
		return Part{}
	}
	if n, ok := d.node("infiniband/rdma_cm"); ok {
		nodes = append(nodes, n)
	}
	sortNodes(nodes)
	return Part{Nodes: nodes}
}

// gdsFiles finds the configuration of GPUDirect Storage, and the folder of udev with
// the properties of block devices.
func (r *Root) gdsFiles() []File {
	var out []File
	if e, err := r.locate("/etc/cufile.json"); err == nil && e.info.Mode().IsRegular() {
		out = append(out, r.file(e, 0))
	}
	if f, ok := r.ownFolder("/run/udev", 0); ok {
		out = append(out, f)
	}
	return sortFiles(out)
}
