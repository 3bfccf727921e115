package inject

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	specs "tags.cncf.io/container-device-interface/specs-go"

	spec "outrigger.dev/agents/container-toolkit/internal/oci"
	"outrigger.dev/pkg/gpu"
)

// noPermissions is a value of a spec that grants no access in the device cgroup.
const noPermissions = "none"

// Node is a device node of the host.
type Node struct {
	// Type is "b", "c" or "p".
	Type         string
	Major, Minor int64
	Mode         fs.FileMode
}

// Target describes the container that gets devices.
type Target struct {
	// User is the user of the container's process. It owns device nodes without an owner in the spec.
	User oci.User
	// UserNamespace is true if mounts need to map owners.
	UserNamespace bool
	// Public reports whether every user may use a file of the host. The mount of such a file
	// needs no map. If Public is nil, no file is public.
	Public func(path string) bool
	// Stat returns a device node of the host, without following a link. The error wraps
	// gpu.ErrNoDriver if the driver that creates the node is not loaded.
	Stat func(path string) (Node, error)
	// NoGIDs omits the groups of device nodes.
	NoGIDs bool
	// Filter omits the parts that the container does not need; nil omits nothing.
	Filter *Filter
}

// Edits returns the changes of the config.json of a container that gets the devices.
func (t Target) Edits(devices []Device) (spec.Edits, error) {
	var out spec.Edits
	var seen []*File
	for _, d := range devices {
		edits := []*specs.ContainerEdits{d.Edits}
		if !slices.Contains(seen, d.File) {
			seen = append(seen, d.File)
			edits = []*specs.ContainerEdits{&d.File.Spec.ContainerEdits, d.Edits}
		}
		for _, e := range edits {
			if err := t.add(&out, t.Filter.apply(d.File.Spec.Kind, e)); err != nil {
				return out, fmt.Errorf("inject %s=%s of %s: %w", d.File.Spec.Kind, d.Name, d.File.Path, err)
			}
		}
	}
	return out, nil
}

func (t Target) add(out *spec.Edits, e *specs.ContainerEdits) error {
	out.Env = append(out.Env, e.Env...)
	for _, n := range e.DeviceNodes {
		if err := t.addNode(out, n); err != nil {
			return err
		}
	}
	for _, n := range e.NetDevices {
		if out.NetDevices == nil {
			out.NetDevices = map[string]oci.LinuxNetDevice{}
		}
		out.NetDevices[n.HostInterfaceName] = oci.LinuxNetDevice{Name: n.Name}
	}
	for _, m := range e.Mounts {
		out.Mounts = append(out.Mounts, t.mount(m))
	}
	for _, h := range e.Hooks {
		out.Hooks = append(out.Hooks, spec.Hook{Phase: h.HookName, Hook: oci.Hook{Path: h.Path, Args: h.Args, Env: h.Env, Timeout: h.Timeout}})
	}
	if r := e.IntelRdt; r != nil {
		out.IntelRdt = &oci.LinuxIntelRdt{
			ClosID: r.ClosID, L3CacheSchema: r.L3CacheSchema, MemBwSchema: r.MemBwSchema,
			Schemata: r.Schemata, EnableMonitoring: r.EnableMonitoring,
		}
	}
	for _, gid := range e.AdditionalGIDs {
		if gid != 0 && !t.NoGIDs && !slices.Contains(out.GIDs, gid) {
			out.GIDs = append(out.GIDs, gid)
		}
	}
	return nil
}

// addNode adds a device node, and its rule in the device cgroup.
func (t Target) addNode(out *spec.Edits, n *specs.DeviceNode) error {
	d, err := t.complete(n)
	if err != nil {
		return err
	}
	if uid := t.User.UID; d.UID == nil && uid > 0 {
		d.UID = &uid
	}
	if gid := t.User.GID; d.GID == nil && gid > 0 {
		d.GID = &gid
	}
	out.Devices = append(out.Devices, d)
	if d.Type != "b" && d.Type != "c" {
		return nil
	}
	access := n.Permissions
	switch access {
	case "":
		access = "rwm"
	case noPermissions:
		access = ""
	}
	out.Rules = append(out.Rules, oci.LinuxDeviceCgroup{Allow: true, Type: d.Type, Major: &d.Major, Minor: &d.Minor, Access: access})
	return nil
}

// complete returns the device of a node. Values that the spec does not have come from the device
// node of the host. If the spec has the type and the number, the host need not have the node.
func (t Target) complete(n *specs.DeviceNode) (oci.LinuxDevice, error) {
	const fifo = "p"
	d := oci.LinuxDevice{Path: n.Path, Type: n.Type, Major: n.Major, Minor: n.Minor, FileMode: n.FileMode, UID: n.UID, GID: n.GID}
	described := n.Type != "" && (n.Major != 0 || n.Type == fifo)
	path := n.HostPath
	if path == "" {
		path = n.Path
	}
	host, err := t.Stat(path)
	if err != nil {
		if described {
			return d, nil
		}
		fix := "make it with nvidia-ctk system create-device-nodes, or write the spec again"
		if errors.Is(err, gpu.ErrNoDriver) {
			fix = "load it: modprobe nvidia"
		}
		return d, fmt.Errorf("the host lacks a device node of the spec: %w (%s)", err, fix)
	}
	if d.FileMode == nil {
		d.FileMode = &host.Mode
	}
	if described {
		return d, nil
	}
	if d.Type != "" && d.Type != host.Type {
		return d, fmt.Errorf("device node %s has type %q on the host, not %q", path, host.Type, d.Type)
	}
	d.Type = host.Type
	if d.Type != fifo && d.Major == 0 {
		d.Major, d.Minor = host.Major, host.Minor
	}
	return d, nil
}

// mount returns a mount. In a container with a user namespace, bind mounts map owners. Some
// file systems do not support this: for example overlayfs, which has the files of a driver
// container.
func (t Target) mount(m *specs.Mount) oci.Mount {
	out := oci.Mount{Source: m.HostPath, Destination: m.ContainerPath, Options: m.Options, Type: m.Type}
	if !t.UserNamespace || t.Public != nil && slices.Contains(m.Options, "ro") && t.Public(m.HostPath) {
		return out
	}
	option := ""
	if m.Type == "bind" {
		option = "idmap"
	}
	for _, o := range m.Options {
		switch o {
		case "idmap", "ridmap":
			return out
		case "bind":
			option = "idmap"
		case "rbind":
			option = "ridmap"
		}
	}
	if option != "" {
		out.Options = append(slices.Clone(m.Options), option)
	}
	return out
}
