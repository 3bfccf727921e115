// Package cdi builds Container Device Interface specs for NVIDIA GPUs and keeps
// them in a folder, in three steps: it scans a driver root (package driverroot),
// derives specs from its content and the node's GPUs (Specs, which is pure), and
// writes the changed specs (Dir). A Publisher does all three for an agent.
//
// # Libraries without a hook
//
// A program asks the loader for libcuda.so.1, while the driver has the file
// libcuda.so.<version>. Where nvidia-cdi-hook is installed, a hook creates the
// links and runs ldconfig inside the container. A device plugin that is deployed
// alone has no hook on the host, and containers must find the library anyway.
// A spec without hooks therefore mounts every library a second time, under each of
// its names, in the folders that glibc's loader searches without a cache. These are
// a folder of the Debian family and a folder of the Red Hat family, because the
// distribution of the image is not known. The cost is some mounts per container.
// Programs find the libraries whether or not the image has a cache, and nothing runs
// inside the container. Setting LD_LIBRARY_PATH instead would replace the value that
// the image sets.
package cdi

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// Options describes a spec.
type Options struct {
	// Kind is the vendor and the class: "k8s.device-plugin.nvidia.com/gpu".
	Kind string
	// Bare omits the driver's files and control nodes. Set it for devices that
	// containers use together with a GPU, because the GPU's spec has them.
	Bare bool
	// HookPath is the path of nvidia-cdi-hook or nvidia-ctk on the host. If the file does not
	// exist, the runtime rejects the container. If HookPath is empty, the spec has no hooks.
	HookPath string
	// OneHook replaces the calls of all hooks by one call. Set it only if HookPath is the
	// nvidia-cdi-hook of this project, because other programs do not support it.
	OneHook bool
	// LdconfigPath is the path of ldconfig on the host, for hooks of NVIDIA's
	// container toolkit. If it is empty, the hook decides.
	LdconfigPath string
	Features
}

// Request asks for one spec.
type Request struct {
	Options
	// Devices returns the devices of the spec, given the content of the driver root and the node's
	// GPUs. It also returns the working devices that the spec cannot describe.
	Devices func(*driverroot.Content, []gpu.GPU) ([]Device, []Unresolved)
}

// Specs returns the requested specs, and the working devices that they do not describe. A request
// without devices gets no spec, because CDI does not allow an empty one. If all devices of a
// request are unresolved, Specs returns an error.
func Specs(c *driverroot.Content, gpus []gpu.GPU, requests ...Request) ([]*specs.Spec, []Unresolved, error) {
	var out []*specs.Spec
	var unresolved []Unresolved
	for _, r := range requests {
		devices, missing := r.Devices(c, gpus)
		if len(devices) == 0 && len(missing) > 0 {
			errs := make([]error, len(missing))
			for i, u := range missing {
				errs[i] = u
			}
			return nil, missing, errors.Join(errs...)
		}
		unresolved = append(unresolved, missing...)
		if len(devices) == 0 {
			continue
		}
		spec, err := newSpec(c, devices, r.Options)
		if err != nil {
			return nil, unresolved, fmt.Errorf("build CDI spec %s: %w", r.Kind, err)
		}
		out = append(out, spec)
	}
	return out, unresolved, nil
}

// newSpec returns the CDI spec that gives containers the devices. Its version is the lowest version
// that allows its content. Equal arguments give equal specs.
func newSpec(c *driverroot.Content, devices []Device, o Options) (*specs.Spec, error) {
	if err := errors.Join(checkKind(o.Kind), checkDevices(devices), checkHook(o.HookPath)); err != nil {
		return nil, err
	}
	spec := &specs.Spec{Kind: o.Kind}
	if !o.Bare {
		spec.ContainerEdits = commonEdits(c, o)
	}
	for _, d := range devices {
		edits := specs.ContainerEdits{Env: d.Env}
		addNodes(&edits, d.Nodes, o)
		m := newMounts()
		for _, f := range d.Files {
			m.add(f.HostPath, f.Path)
		}
		edits.Mounts = m.sorted()
		spec.Devices = append(spec.Devices, specs.Device{Name: d.Name, ContainerEdits: edits})
	}
	slices.SortFunc(spec.Devices, func(a, b specs.Device) int { return strings.Compare(a.Name, b.Name) })
	version, err := specs.MinimumRequiredVersion(spec)
	if err != nil {
		return nil, fmt.Errorf("choose version: %w", err)
	}
	spec.Version = version
	return spec, nil
}

func checkKind(kind string) error {
	vendor, class := parser.ParseQualifier(kind)
	return errors.Join(parser.ValidateVendorName(vendor), parser.ValidateClassName(class))
}

func checkDevices(devices []Device) error {
	var errs []error
	seen := map[string]bool{}
	for _, d := range devices {
		if err := parser.ValidateDeviceName(d.Name); err != nil {
			errs = append(errs, err)
		}
		if seen[d.Name] {
			errs = append(errs, fmt.Errorf("device %q appears twice", d.Name))
		}
		seen[d.Name] = true
		if len(d.Nodes) == 0 && len(d.Env) == 0 {
			errs = append(errs, fmt.Errorf("device %q has no device node", d.Name))
		}
	}
	return errors.Join(errs...)
}

func checkHook(p string) error {
	if p != "" && !path.IsAbs(p) {
		return fmt.Errorf("hook path %q is not absolute", p)
	}
	return nil
}

// commonEdits returns the edits for every container that gets a device of the spec.
func commonEdits(c *driverroot.Content, o Options) specs.ContainerEdits {
	edits := specs.ContainerEdits{
		Env: []string{
			"NVIDIA_CTK_LIBCUDA_DIR=" + libcudaDir(c),
			// The spec injects the devices, so no other tool may inject more.
			"NVIDIA_VISIBLE_DEVICES=void",
		},
	}
	addNodes(&edits, c.Control, o)
	m := newMounts()
	for _, l := range c.Libraries {
		m.add(l.HostPath, l.Path)
		if !o.runs(hookCache) {
			m.addNames(l)
		}
	}
	for _, files := range [][]driverroot.File{c.Binaries, c.Firmware, c.Configs} {
		for _, f := range files {
			m.add(f.HostPath, f.Path)
		}
	}
	if !o.NoSockets {
		for _, f := range c.Sockets {
			m.addSocket(f.HostPath, f.Path)
		}
	}
	edits.Mounts = m.sorted()
	edits.Hooks = hooks(c, o)
	return edits
}

func libcudaDir(c *driverroot.Content) string {
	for _, l := range c.Libraries {
		if path.Base(l.Path) == "libcuda.so."+c.Version {
			return path.Dir(l.Path)
		}
	}
	return ""
}

// addNodes adds device nodes without their numbers. The runtime reads the numbers from the host
// when it starts a container, because the number of nvidia-uvm changes when the driver is loaded
// again.
func addNodes(edits *specs.ContainerEdits, nodes []driverroot.DeviceNode, o Options) {
	for _, n := range nodes {
		d := &specs.DeviceNode{Path: n.Path, Permissions: "rw"}
		if n.HostPath != n.Path {
			d.HostPath = n.HostPath
		}
		if n.Mode&0o006 != 0o006 {
			mode, gid := n.Mode, n.GID
			d.FileMode, d.GID = &mode, &gid
			if gid != 0 && !o.NoAdditionalGIDs && !slices.Contains(edits.AdditionalGIDs, gid) {
				edits.AdditionalGIDs = append(edits.AdditionalGIDs, gid)
			}
		}
		edits.DeviceNodes = append(edits.DeviceNodes, d)
	}
	slices.SortFunc(edits.DeviceNodes, func(a, b *specs.DeviceNode) int { return strings.Compare(a.Path, b.Path) })
	slices.Sort(edits.AdditionalGIDs)
}
