// Package stack has the rules for the kernel modules of NVIDIA's driver: the modules that a
// node needs, the orders of loading and unloading, and the parameters. It does no I/O.
package stack

import (
	"maps"
	"slices"

	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/module"
)

// Core is the module that all other modules of the driver depend on.
const Core = "nvidia"

// Options selects the optional parts of the driver.
type Options struct {
	// DRM loads nvidia_drm, for programs that draw. It holds nvidia_modeset.
	DRM bool
	// RDMA loads nvidia_peermem, so that network adapters can access the memory of GPUs.
	RDMA bool
	// Storage loads nvidia_fs, for GPUDirect Storage. GDRCopy loads gdrdrv.
	Storage, GDRCopy bool
}

// All returns options that select all optional parts.
func All() Options { return Options{DRM: true, RDMA: true, Storage: true, GDRCopy: true} }

// Wanted returns the modules without which the driver of a node does not work, in the order of NVIDIA's
// driver container.
func Wanted(o Options) []string {
	out := []string{Core, "nvidia_uvm", "nvidia_modeset"}
	if o.DRM {
		out = append(out, "nvidia_drm")
	}
	return out
}

// The optional modules. The driver works without them.
const (
	Peermem = "nvidia_peermem"
	Storage = "nvidia_fs"
	GDRCopy = "gdrdrv"
)

// Optional returns the optional modules that the options select, in load order.
func Optional(o Options) []string {
	var out []string
	for _, optional := range []struct {
		name   string
		wanted bool
	}{{Peermem, o.RDMA}, {Storage, o.Storage}, {GDRCopy, o.GDRCopy}} {
		if optional.wanted {
			out = append(out, optional.name)
		}
	}
	return out
}

// dummy is a module that gdrdrv is built with, and that is not loaded: nvidia has its symbols.
const dummy = "nv_p2p_dummy"

// LoadOrder returns the wanted modules and all modules of the driver that they depend on, in load
// order. absent lists the wanted modules that the driver does not have. others lists the modules of
// the kernel that must be loaded first, ordered by name.
func LoadOrder(driver map[string]*module.Module, wanted []string) (order, absent, others []string) {
	placed, foreign := map[string]bool{}, map[string]bool{}
	var place func(name string)
	place = func(name string) {
		if placed[name] {
			return
		}
		placed[name] = true
		m, ok := driver[name]
		if !ok {
			return
		}
		for _, needed := range m.Depends {
			if needed == dummy {
				continue
			}
			if _, own := driver[needed]; !own {
				foreign[needed] = true
			}
			place(needed)
		}
		order = append(order, name)
	}
	for _, name := range wanted {
		if _, ok := driver[name]; !ok {
			absent = append(absent, name)
			continue
		}
		place(name)
	}
	return order, absent, slices.Sorted(maps.Keys(foreign))
}

// UnloadOrder returns the modules to unload when the driver is unloaded, in unload order: the core and
// all modules that hold it, of any vendor. It returns nothing if the driver is not loaded.
func UnloadOrder(loaded map[string]kernel.Loaded) []string { return HoldersOf(loaded, Core) }

// HoldersOf returns a module and all modules that hold it, in unload order. It returns nothing if the
// module is not loaded.
func HoldersOf(loaded map[string]kernel.Loaded, module string) []string {
	var order []string
	placed := map[string]bool{}
	var place func(name string)
	place = func(name string) {
		m, ok := loaded[name]
		if !ok || placed[name] {
			return
		}
		placed[name] = true
		for _, holder := range m.Holders {
			place(holder)
		}
		order = append(order, name)
	}
	place(module)
	return order
}

// Used returns the modules with users other than modules: open devices, or the kernel itself. They
// cannot be unloaded now.
func Used(loaded map[string]kernel.Loaded, names []string) []string {
	var out []string
	for _, name := range names {
		if m := loaded[name]; m.RefCount > len(m.Holders) {
			out = append(out, name)
		}
	}
	return out
}
