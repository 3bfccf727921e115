package cdi

import (
	"cmp"
	"path"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/pkg/driverroot"
)

// mounts collects bind mounts, one for each path in the container. The first
// mount that is added for a path stays.
type mounts struct {
	byPath map[string]*specs.Mount
}

// add mounts a file that containers read.
func (m *mounts) add(hostPath, ctrPath string) {
	m.put(hostPath, ctrPath, "ro", "nosuid", "nodev", "rbind", "rprivate")
}

// addSocket mounts a socket, or a folder of sockets, of the host.
func (m *mounts) addSocket(hostPath, ctrPath string) {
	m.put(hostPath, ctrPath, "nosuid", "nodev", "rbind", "rprivate", "noexec")
}

func (m *mounts) put(hostPath, ctrPath string, options ...string) {
	if m.byPath == nil {
		m.byPath = map[string]*specs.Mount{}
	}
	if m.byPath[ctrPath] == nil {
		m.byPath[ctrPath] = &specs.Mount{HostPath: hostPath, ContainerPath: ctrPath, Options: options}
	}
}

// addNames mounts a library where the loader finds it without a cache. Plug-ins
// are opened by their path and get no second mount.
func (m *mounts) addNames(l driverroot.Library) {
	base := path.Base(l.Path)
	if !strings.HasPrefix(base, "lib") || isPlugIn(l.Path) {
		return
	}
	for _, dir := range driverroot.LoaderDirs() {
		m.add(l.HostPath, path.Join(dir, base))
		for _, name := range l.Names {
			m.add(l.HostPath, path.Join(dir, name))
		}
	}
}

func isPlugIn(p string) bool {
	dir := path.Dir(p)
	return strings.Contains(dir, "/xorg") || path.Base(dir) == "vdpau"
}

// sorted returns the mounts, those closest to the root first.
func (m *mounts) sorted() []*specs.Mount {
	if len(m.byPath) == 0 {
		return nil
	}
	out := make([]*specs.Mount, 0, len(m.byPath))
	for _, mount := range m.byPath {
		out = append(out, mount)
	}
	slices.SortFunc(out, func(a, b *specs.Mount) int {
		return cmp.Or(
			cmp.Compare(strings.Count(a.ContainerPath, "/"), strings.Count(b.ContainerPath, "/")),
			cmp.Compare(a.ContainerPath, b.ContainerPath),
		)
	})
	return out
}
