package ldcache

import (
	"path"

	"outrigger.dev/pkg/ldso"
)

// present is the cache that the container has. It saves reading libraries again: an image
// has hundreds, and on a node where it never ran, none of them is in memory.
type present struct {
	// known has the libraries of each folder by the name of the file: where they are in all.
	known map[place]map[string]int32
	all   []ldso.Entry
	dirs  map[string]dirID
}

// place is a folder, and its name below glibc-hwcaps if it is there.
type place struct {
	id     dirID
	hwcaps string
}

// present reads the cache. One that is absent or damaged is as good as none.
func (u *update) present() *present {
	p := &present{known: map[place]map[string]int32{}, dirs: map[string]dirID{}}
	data := u.read(cacheFile, ldso.MaxCache)
	if data == nil {
		return p
	}
	all, err := ldso.Parse(data)
	if err != nil {
		u.warn(cacheFile + " in the container: " + err.Error() + ": it is written anew")
		return p
	}
	p.all = all
	for i, e := range all {
		name, base := path.Split(e.Path)
		id, seen := p.dirs[name]
		if !seen && len(p.dirs) < maxDirs {
			// The zero ID of a folder that is gone is remembered, too.
			d, _ := u.identify(name)
			id = d.id
			p.dirs[name] = id
		}
		// Outside of glibc-hwcaps, the file is the link that is named as the library.
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

// lookup returns what the cache has of a file in a folder.
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

// others returns the libraries in folders that exist and that nobody searched, such as
// one that an image's ldconfig got as an argument, and those below a searched folder that
// old versions of glibc know.
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
