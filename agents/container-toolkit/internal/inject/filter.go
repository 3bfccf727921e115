package inject

import (
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/pkg/driverroot"
)

// Filter omits the parts of a spec for NVIDIA's driver that no wanted capability needs.
type Filter struct {
	wanted driverroot.Capabilities
	table  *driverroot.Table
	// Left are the omitted paths in the container.
	Left []string
}

// NewFilter returns a filter for driver capabilities, or nil if all are wanted.
func NewFilter(names []string) (*Filter, error) {
	wanted, err := driverroot.ParseCapabilities(names...)
	if err != nil || wanted == driverroot.EveryCapability {
		return nil, err
	}
	return &Filter{wanted: wanted, table: driverroot.NewTable()}, nil
}

// apply returns the filtered edits of a spec with a kind.
func (f *Filter) apply(kind string, e *specs.ContainerEdits) *specs.ContainerEdits {
	if f == nil || !isDriverKind(kind) {
		return e
	}
	out := *e
	out.DeviceNodes = slices.DeleteFunc(slices.Clone(e.DeviceNodes), func(n *specs.DeviceNode) bool { return f.drops(n.Path) })
	out.Mounts = slices.DeleteFunc(slices.Clone(e.Mounts), func(m *specs.Mount) bool { return f.drops(m.ContainerPath) })
	out.Hooks = nil
	for _, h := range e.Hooks {
		if h = f.hook(h); h != nil {
			out.Hooks = append(out.Hooks, h)
		}
	}
	return &out
}

// isDriverKind reports whether specs of a kind are for NVIDIA's driver.
func isDriverKind(kind string) bool {
	vendor, _, _ := strings.Cut(kind, "/")
	return vendor == "nvidia.com" || strings.HasSuffix(vendor, ".nvidia.com")
}

// IsGPUKind reports whether specs of a kind describe GPUs.
func IsGPUKind(kind string) bool {
	_, class, _ := strings.Cut(kind, "/")
	return class == "gpu" && isDriverKind(kind)
}

// drops reports whether the filter omits a path, and records the path.
func (f *Filter) drops(path string) bool {
	c, known := f.table.Capabilities(path)
	if !known || f.wanted.Admits(c) {
		return false
	}
	f.Left = append(f.Left, path)
	return true
}

// hook returns a hook without the links to omitted paths. It returns nil if the hook creates only
// such links.
func (f *Filter) hook(h *specs.Hook) *specs.Hook {
	out := *h
	out.Args = nil
	links, kept := 0, 0
	for i := 0; i < len(h.Args); i++ {
		link, inline := strings.CutPrefix(h.Args[i], "--link=")
		if !inline && h.Args[i] == "--link" && i+1 < len(h.Args) {
			link = h.Args[i+1]
		} else if !inline {
			out.Args = append(out.Args, h.Args[i])
			continue
		}
		links++
		if !f.dropsLink(link) {
			kept++
			out.Args = append(out.Args, "--link", link)
		}
		if !inline {
			i++
		}
	}
	if links > 0 && kept == 0 && slices.Contains(h.Args, "create-symlinks") {
		return nil
	}
	return &out
}

// dropsLink reports whether a link, written as target::link, leads to an omitted path.
func (f *Filter) dropsLink(link string) bool {
	target, at, _ := strings.Cut(link, "::")
	for _, path := range []string{target, at} {
		if c, known := f.table.Capabilities(path); known && !f.wanted.Admits(c) {
			return true
		}
	}
	return false
}
