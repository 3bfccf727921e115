package ldcache

import (
	"path"

	"outrigger.dev/pkg/ldso"
)

// present is the container's current cache. It saves reading the libraries again. An image has
// hundreds of libraries, and on a node where the image never ran, they are not in the page cache.
type present struct {
	// known has, for each file in a folder, the index of its library in all.
	known map[place]map[string]int32
	all   []ldso.Entry
	dirs  map[string]dirID
}

// place is a folder, with the name of its subfolder of glibc-hwcaps if it is one.
type place struct {
	id     dirID
	hwcaps string
}

// present reads the cache. A missing or damaged cache is treated as empty.
func (u *update) present() *present {
	p := &present{known: map[place]map[string]int32{}, dirs: map[string]dirID{}}
	data := u.read(cacheFile, ldso.MaxCache)
	if data == nil {
		return p
	}
	all, err := ldso.Parse(data)
	if err != nil {
		u.warn(cacheFile + " in the container: " + err.Error() + ": writing a new one")
		return p
	}
	p.all = all
	for i, e := range all {
		name, base := path.Split(e.Path)
		id, seen := p.dirs[name]
		if !seen && len(p.dirs) < maxDirs {
			// The zero ID of a missing folder is stored, so that it is looked up only once.
			d, _ := u.identify(name)
			id = d.id
			p.dirs[name] = id
		}
		// Outside of glibc-hwcaps, only an entry whose file name is the SONAME can be used again.
		if id == (dirID{}) || e.Folder == "" && base != e.Name {
			continue
		}
		at := place{id, e.Folder}
		if p.known[at] == nil {
			size := 0
			if len(p.known) == 0 {
				// Most libraries are in one folder.
				size = len(all)
			}
			p.known[at] = make(map[string]int32, size)
		}
		if _, twice := p.known[at][base]; !twice {
			p.known[at][base] = int32(i) //nolint:gosec // Parse limits the number
		}
	}
	return p
}

// lookup returns the cache entry of a file in a folder.
func (p *present) lookup(at place, file string) (ldso.Entry, bool) {
	if p == nil {
		return ldso.Entry{}, false
	}
	i, ok := p.known[at][file]
	if !ok {
		return ldso.Entry{}, false
	}
	return p.all[i], true
}

// others returns the libraries in existing folders that were not searched. Examples are a folder
// that was an argument of the image's ldconfig, and subfolders that old versions of glibc search.
func (p *present) others(searched map[dirID]bool) []ldso.Entry {
	var out []ldso.Entry
	for _, e := range p.all {
		name, _ := path.Split(e.Path)
		if id := p.dirs[name]; id != (dirID{}) && !searched[id] {
			out = append(out, e)
		}
	}
	return out
}
