// Package cdi builds Container Device Interface specs for NVIDIA GPUs from the
// content of a driver root, and keeps a folder of them up to date.
//
// # Libraries without a hook
//
// A program asks the loader for libcuda.so.1, while the driver has the file
// libcuda.so.<version>. Where nvidia-cdi-hook is installed, a hook makes the
// links and runs ldconfig inside the container. A device plugin that stands
// alone has no hook on the host, and a container must find the library all the
// same. So without a hook every library is mounted a second time under each of
// its names, in the folders that glibc's loader searches without a cache: that
// of Debian's family and that of Red Hat's, since nothing is known of the
// image. The price is some mounts per container; programs find the libraries
// whether or not the image has a cache, and nothing runs inside the container.
// Setting LD_LIBRARY_PATH instead would replace what the image sets.
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
)

// Options says what a spec is for.
type Options struct {
	// Kind is vendor and class, for example "k8s.device-plugin.nvidia.com/gpu".
	Kind string
	// HookPath is the path of nvidia-cdi-hook, or nvidia-ctk, on the host. It
	// has to exist there: the runtime refuses the container otherwise. Empty
	// for a spec without hooks.
	HookPath string
	Features
}

// Spec returns the CDI spec that gives containers the devices and the driver's
// content. Its version is the lowest that carries what it holds. Equal
// arguments give equal specs.
func Spec(c *driverroot.Content, devices []Device, o Options) (*specs.Spec, error) {
	if err := errors.Join(checkKind(o.Kind), checkDevices(devices), checkHook(o.HookPath)); err != nil {
		return nil, fmt.Errorf("build CDI spec %s: %w", o.Kind, err)
	}
	return assemble(common(c, o), devices, o)
}

// BareSpec returns a CDI spec that gives containers the devices and nothing
// else: for hardware that is used beside a GPU.
func BareSpec(devices []Device, o Options) (*specs.Spec, error) {
	if err := errors.Join(checkKind(o.Kind), checkDevices(devices)); err != nil {
		return nil, fmt.Errorf("build CDI spec %s: %w", o.Kind, err)
	}
	return assemble(specs.ContainerEdits{}, devices, o)
}

// assemble returns the spec with what is common to all devices.
func assemble(common specs.ContainerEdits, devices []Device, o Options) (*specs.Spec, error) {
	spec := &specs.Spec{Kind: o.Kind, ContainerEdits: common}
	for _, d := range devices {
		var edits specs.ContainerEdits
		addNodes(&edits, d.Nodes, o)
		var m mounts
		for _, f := range d.Files {
			m.add(f.HostPath, f.Path)
		}
		edits.Mounts = m.sorted()
		spec.Devices = append(spec.Devices, specs.Device{Name: d.Name, ContainerEdits: edits})
	}
	slices.SortFunc(spec.Devices, func(a, b specs.Device) int { return strings.Compare(a.Name, b.Name) })
	version, err := specs.MinimumRequiredVersion(spec)
	if err != nil {
		return nil, fmt.Errorf("choose version of CDI spec %s: %w", o.Kind, err)
	}
	spec.Version = version
	return spec, nil
}

func checkKind(kind string) error {
	vendor, class := parser.ParseQualifier(kind)
	return errors.Join(parser.ValidateVendorName(vendor), parser.ValidateClassName(class))
}

func checkDevices(devices []Device) error {
	if len(devices) == 0 {
		return errors.New("there are no devices")
	}
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
		if len(d.Nodes) == 0 {
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

// common returns what every container with a GPU gets.
func common(c *driverroot.Content, o Options) specs.ContainerEdits {
	edits := specs.ContainerEdits{
		Env: []string{
			"NVIDIA_CTK_LIBCUDA_DIR=" + libcudaDir(c),
			// The devices are in: no other tool is to inject some again.
			"NVIDIA_VISIBLE_DEVICES=void",
		},
	}
	addNodes(&edits, c.Control, o)
	var m mounts
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

// addNodes adds device nodes. Their numbers are left to the runtime, which
// reads them from the host's node when it starts a container: that of
// nvidia-uvm changes when the driver is loaded again.
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
