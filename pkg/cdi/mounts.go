package cdi

import (
	"cmp"
	"path"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/pkg/driverroot"
)

// mounts collects bind mounts. If several mounts have the same path in the container, the first one
// takes precedence.
type mounts struct {
	all []*specs.Mount
	// read and talk are the mount options of add and addSocket.
	read, talk []string
}

func newMounts() *mounts {
	return &mounts{
		read: []string{"ro", "nosuid", "nodev", "rbind", "rprivate"},
		talk: []string{"nosuid", "nodev", "rbind", "rprivate", "noexec"},
	}
}

// add mounts a file that containers read.
func (m *mounts) add(hostPath, ctrPath string) {
	m.all = append(m.all, &specs.Mount{HostPath: hostPath, ContainerPath: ctrPath, Options: m.read})
}

// addSocket mounts a socket, or a folder of sockets, of the host.
func (m *mounts) addSocket(hostPath, ctrPath string) {
	m.all = append(m.all, &specs.Mount{HostPath: hostPath, ContainerPath: ctrPath, Options: m.talk})
}

// addNames mounts a library at the paths where the loader finds it without a cache. Programs open
// plug-ins by path, so plug-ins stay in their folder.
func (m *mounts) addNames(l driverroot.Library) {
	base := path.Base(l.Path)
	if l.PlugIn() {
		for _, name := range l.Names {
			m.add(l.HostPath, path.Join(path.Dir(l.Path), name))
		}
		return
	}
	if !strings.HasPrefix(base, "lib") {
		return
	}
	for _, dir := range driverroot.LoaderDirs() {
		m.add(l.HostPath, path.Join(dir, base))
		for _, name := range l.Names {
			m.add(l.HostPath, path.Join(dir, name))
		}
	}
}

// sorted returns the mounts, with paths closest to the root first.
func (m *mounts) sorted() []*specs.Mount {
	slices.SortStableFunc(m.all, func(a, b *specs.Mount) int {
		return cmp.Or(
			cmp.Compare(strings.Count(a.ContainerPath, "/"), strings.Count(b.ContainerPath, "/")),
			cmp.Compare(a.ContainerPath, b.ContainerPath),
		)
	})
	return slices.CompactFunc(m.all, func(a, b *specs.Mount) bool { return a.ContainerPath == b.ContainerPath })
}
