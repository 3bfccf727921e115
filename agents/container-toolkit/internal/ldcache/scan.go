package ldcache

import (
	"cmp"
	"os"
	"path"
	"slices"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/rootfs"
	"outrigger.dev/pkg/ldso"
)

const hwcapsDir = "glibc-hwcaps"

// library is a library file or link that programs can load.
type library struct {
	file, soname string
	flags        int32
	hwcap        uint64
	// link is set for a link that programs load by its own name, such as libx.so for libx.so.1.
	link bool
	// cached is set for a library of the current cache, whose link exists.
	cached bool
	// mounted is set for a library that was mounted for this container.
	mounted bool
}

// scan returns the libraries of a folder and of its glibc-hwcaps subfolders, and creates missing
// links.
func (u *update) scan(d dir, old *present) []ldso.Entry {
	out := u.scanOne(d, place{id: d.id}, old)
	hwcaps := path.Join(d.path, hwcapsDir)
	if !u.root.Has(hwcaps) {
		return out
	}
	names := u.names(hwcaps)
	for _, name := range names[:min(len(names), maxIncludes)] {
		if sub, ok := u.identify(path.Join(hwcaps, name)); ok {
			out = append(out, u.scanOne(sub, place{sub.id, name}, old)...)
		}
	}
	return out
}

func (u *update) scanOne(d dir, at place, old *present) []ldso.Entry {
	if u.searched[d.id] {
		return nil
	}
	u.searched[d.id] = true
	folder, err := u.root.Dir(d.path)
	if err != nil {
		u.warn(err.Error())
		return nil
	}
	defer folder.Close()
	entries, err := folder.Entries(maxNames)
	if err != nil {
		u.warn(d.path + " in the container: " + err.Error())
		return nil
	}
	entries = slices.DeleteFunc(entries, func(e rootfs.Entry) bool { return !isLibrary(e.Name) })
	// Allocating memory costs more than the work itself, so the maps get their size up front. Most
	// names are links to libraries.
	s := scanner{update: u, dir: d, folder: folder, at: at}
	s.names, s.isLink = make([]string, len(entries)), make(map[string]bool, len(entries))
	s.best = make(map[string]*library, len(entries)/2)
	for i, e := range entries {
		s.names[i], s.isLink[e.Name] = e.Name, e.Link
	}
	slices.Sort(s.names)
	s.reuseCached(old)
	for _, name := range s.names {
		if !s.covered[name] {
			s.add(name)
		}
	}
	return s.entries()
}

// isLibrary reports whether ldconfig treats a name as a library or as the loader.
func isLibrary(name string) bool {
	return (strings.HasPrefix(name, "lib") || strings.HasPrefix(name, "ld-") || strings.HasPrefix(name, "ld.so")) &&
		strings.Contains(name, ".so") &&
		!strings.HasSuffix(name, ".dpkg-new") && !strings.HasSuffix(name, ".dpkg-tmp")
}

// scanner reads one folder.
type scanner struct {
	*update
	dir    dir
	folder *rootfs.Dir
	at     place
	// names has the names of libraries, sorted.
	names  []string
	isLink map[string]bool
	// covered has the files that need not be read.
	covered map[string]bool
	// best has the best library for each SONAME.
	best map[string]*library
}

// reuseCached takes libraries from the current cache if their files exist. If a library is a link, the
// target of the link also counts as covered.
func (s *scanner) reuseCached(old *present) {
	s.covered = make(map[string]bool, len(s.names))
	for _, name := range s.names {
		e, ok := old.lookup(s.at, name)
		if !ok {
			continue
		}
		l := &library{file: name, soname: e.Name, flags: e.Flags, hwcap: e.Hwcap, cached: true}
		for range maxIncludes {
			if !s.isLink[l.file] {
				break
			}
			target, err := s.folder.Readlink(l.file)
			if err != nil || strings.Contains(target, "/") {
				break
			}
			if _, exists := s.isLink[target]; !exists {
				// The link is dangling, so another library may take the name.
				l.cached = false
				break
			}
			l.file = target
			s.covered[target] = true
		}
		if l.cached {
			s.covered[name] = true
			s.best[l.soname] = l
		}
	}
}

// add reads a file that the current cache does not contain.
func (s *scanner) add(name string) {
	l := &library{file: name, mounted: s.folder.Mounted(name)}
	isLink := s.isLink[name]
	elf, ok := s.readLibrary(name, isLink)
	if !ok {
		return
	}
	if l.flags, ok = elf.Flags(); !ok {
		return
	}
	if l.soname = elf.Soname; l.soname == "" || strings.Contains(l.soname, "/") {
		l.soname = name
	}
	// A link with the name of the SONAME, or with the name for linkers (libx.so), is treated as a link.
	// Any other link is treated as a file with another name.
	if isLink && (name == l.soname || strings.HasSuffix(name, ".so") && strings.HasPrefix(l.soname, name)) {
		l.link, l.soname = true, name
	}
	old, taken := s.best[l.soname]
	if !taken || s.better(l, old) {
		s.best[l.soname] = l
	}
}

func (s *scanner) readLibrary(name string, isLink bool) (ldso.Library, bool) {
	open := s.folder.Open
	if isLink {
		open = func(name string) (*os.File, error) { return s.root.OpenFile(path.Join(s.dir.path, name)) }
	}
	f, err := open(name)
	if err != nil {
		return ldso.Library{}, false
	}
	defer f.Close()
	return ldso.ReadLibrary(f)
}

// better reports whether l is preferred over old, which has the same name. A library that was
// mounted for this container comes first, then a file before a link, then the later version.
func (s *scanner) better(l, old *library) bool {
	if old.cached {
		old.mounted = s.folder.Mounted(old.file)
	}
	switch {
	case l.mounted != old.mounted && !l.link && !old.link:
		return l.mounted
	case l.link != old.link:
		return old.link
	}
	return ldso.Compare(old.file, l.file) < 0
}

// entries returns the sorted entries of the cache, and creates the links.
func (s *scanner) entries() []ldso.Entry {
	out := make([]ldso.Entry, 0, len(s.best))
	// The prefix below ends in a slash, so that names can be appended.
	below := strings.TrimSuffix(s.dir.path, "/") + "/"
	for soname, l := range s.best {
		e := ldso.Entry{Name: soname, Path: below + soname, Flags: l.flags, Hwcap: l.hwcap, Folder: s.at.hwcaps}
		if s.at.hwcaps != "" || !l.cached && !l.link && !s.linked(l) {
			e.Path = below + l.file
		}
		out = append(out, e)
	}
	// The cache is sorted by ldso.Compare. The second key makes the order deterministic.
	slices.SortFunc(out, func(a, b ldso.Entry) int {
		return cmp.Or(ldso.Compare(b.Name, a.Name), strings.Compare(a.Name, b.Name))
	})
	return out
}

// linked makes sure that the SONAME of a library leads to it, and reports whether a file with that
// name exists. Like ldconfig, it only replaces links.
func (s *scanner) linked(l *library) bool {
	if l.file == l.soname {
		return true
	}
	isLink, exists := s.isLink[l.soname]
	if exists && !isLink {
		return true
	}
	if exists {
		if target, err := s.folder.Readlink(l.soname); err == nil && (target == l.file || s.same(l)) {
			return true
		}
	}
	if err := s.folder.Symlink(l.file, l.soname); err != nil {
		s.warn(s.dir.path + " in the container: " + err.Error())
		return false
	}
	return true
}

// same reports whether the link leads to the library through other links.
func (s *scanner) same(l *library) bool {
	a, err := s.root.Stat(path.Join(s.dir.path, l.soname))
	if err != nil {
		return false
	}
	b, err := s.folder.Stat(l.file)
	return err == nil && a.Device == b.Device && a.Inode == b.Inode
}
