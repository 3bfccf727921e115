package node

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/bits"
	"path"
	"strings"

	"outrigger.dev/sim/internal/mounts"
	"outrigger.dev/sim/internal/state"
	"outrigger.dev/sim/internal/tree"
)

const (
	sysDevices = mounts.PCIDevices
	// pciClass is "3D controller", the class of a GPU without display outputs.
	pciClass    = 0x030200
	pciRevision = 0xa1
	firstIRQ    = 64
)

func irq(g state.GPU) int { return firstIRQ + g.Minor }

func sysGPU(g state.GPU) string { return path.Join(sysDevices, g.BusID) }

// sysDriver returns the link to the driver that a GPU is bound to.
func sysDriver(g state.GPU) tree.Entry {
	return tree.Symlink(sysGPU(g)+"/driver", "../../drivers/nvidia")
}

// sysfs returns the entries of a GPU on the PCI bus. The GPU is not bound to a driver.
func sysfs(g state.GPU) []tree.Entry {
	dir := sysGPU(g)
	hex := func(name string, v uint32) tree.Entry {
		return tree.File(dir+"/"+name, fmt.Sprintf("0x%04x\n", v))
	}
	alias := fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc03sc02i00",
		g.PCIID&0xffff, g.PCIID>>16, g.SubsystemID&0xffff, g.SubsystemID>>16)
	uevent := fmt.Sprintf("PCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\nPCI_SLOT_NAME=%s\nMODALIAS=%s\n", pciClass,
		g.PCIID&0xffff, g.PCIID>>16, g.SubsystemID&0xffff, g.SubsystemID>>16, g.BusID, alias)
	return []tree.Entry{
		hex("vendor", g.PCIID&0xffff),
		hex("device", g.PCIID>>16),
		hex("subsystem_vendor", g.SubsystemID&0xffff),
		hex("subsystem_device", g.SubsystemID>>16),
		tree.File(dir+"/class", fmt.Sprintf("0x%06x\n", pciClass)),
		tree.File(dir+"/revision", fmt.Sprintf("0x%02x\n", pciRevision)),
		tree.File(dir+"/irq", fmt.Sprintf("%d\n", irq(g))),
		{Path: dir + "/enable", Mode: 0o644, Data: []byte("1\n")},
		{Path: dir + "/numa_node", Mode: 0o644, Data: fmt.Appendf(nil, "%d\n", g.NUMANode)},
		{Path: dir + "/config", Mode: 0o644, Data: pciConfig(g)},
		{Path: dir + "/uevent", Mode: 0o644, Data: []byte(uevent)},
		tree.File(dir+"/modalias", alias+"\n"),
		tree.File(dir+"/resource", pciResources(g)),
		tree.Symlink(dir+"/subsystem", "../../../pci"),
	}
}

// bar is a memory region of a PCI device.
type bar struct{ start, size, flags uint64 }

// Flags of a region, as the kernel prints them: memory, 32 or 64 bit,
// prefetchable.
const (
	flags32   = 0x040200
	flags64   = 0x14220c
	barWindow = 1 << 41 // room for the regions of one GPU
)

// bars returns the six regions of a GPU: registers, memory, and the message window. Memory and the
// message window are 64-bit regions, so each takes two places.
func bars(g state.GPU) [6]bar {
	base := barWindow * uint64(g.Minor+1)
	memory := uint64(1) << bits.Len64(g.MemoryBytes-1)
	return [6]bar{
		0: {0xd0000000 + uint64(g.Minor)<<24, 16 << 20, flags32},
		1: {base, memory, flags64},
		3: {base + barWindow/2, 32 << 20, flags64},
	}
}

func pciResources(g state.GPU) string {
	var b strings.Builder
	region := func(r bar) {
		end := r.start
		if r.size > 0 {
			end = r.start + r.size - 1
		}
		fmt.Fprintf(&b, "0x%016x 0x%016x 0x%016x\n", r.start, end, r.flags)
	}
	for _, r := range bars(g) {
		region(r)
	}
	for range 7 { // the ROM and the six regions of virtual functions
		region(bar{})
	}
	return b.String()
}

// pciConfig returns the first 256 bytes of the configuration space. Its only capability is PCI
// Express.
func pciConfig(g state.GPU) []byte {
	const express = 0x60
	c := make([]byte, 256)
	le := binary.LittleEndian
	le.PutUint16(c[0x00:], uint16(g.PCIID))
	le.PutUint16(c[0x02:], uint16(g.PCIID>>16))
	le.PutUint16(c[0x04:], 0x0406) // memory, bus master, no INTx
	le.PutUint16(c[0x06:], 0x0010) // has capabilities
	c[0x08] = pciRevision
	c[0x0a], c[0x0b] = pciClass>>8&0xff, pciClass>>16
	for i, r := range bars(g) {
		if r.size == 0 {
			continue
		}
		low := uint32(r.start)
		if r.flags == flags64 {
			low |= 0xc // 64 bit, prefetchable
			le.PutUint32(c[0x14+4*i:], uint32(r.start>>32))
		}
		le.PutUint32(c[0x10+4*i:], low)
	}
	le.PutUint16(c[0x2c:], uint16(g.SubsystemID))
	le.PutUint16(c[0x2e:], uint16(g.SubsystemID>>16))
	c[0x34] = express
	c[0x3c] = 0xff // no interrupt line
	c[express] = 0x10
	le.PutUint16(c[express+2:], 0x0002) // endpoint, version 2
	return c
}

// sysHost returns links to the machine's own PCI devices, as in sysfs.
func sysHost(devices fs.FS) ([]tree.Entry, error) {
	names, err := fs.Glob(devices, "*")
	if err != nil {
		return nil, fmt.Errorf("list PCI devices: %w", err)
	}
	var entries []tree.Entry
	for _, name := range names {
		target, err := fs.ReadLink(devices, name)
		if err != nil {
			return nil, fmt.Errorf("read PCI device %s: %w", name, err)
		}
		entries = append(entries, tree.Symlink(path.Join(sysDevices, name), target))
	}
	return entries, nil
}
