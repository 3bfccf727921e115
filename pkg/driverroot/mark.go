package driverroot

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"syscall"
	"time"
)

// searchState is the state of the folders that Find searched. While it is the same,
// nothing was added, removed or replaced, and Find would return the same.
type searchState struct {
	root    *Root
	folders map[string]identity
	// listed are the folders whose entries count.
	listed map[string]bool
	nodes  map[string]identity
	// at is when the search began.
	at time.Time
}

// settled is how old the modification time of a folder must be to be trusted: the
// kernel's clock for it may stand still for some milliseconds, in which a second
// change leaves no trace.
const settled = 50 * time.Millisecond

// identity distinguishes states of a folder; it is zero if there is no folder.
type identity struct {
	dir      bool
	dev, ino uint64
	changed  time.Time
}

func identityOf(info fs.FileInfo, err error) identity {
	if err != nil {
		return identity{}
	}
	id := identity{dir: info.IsDir(), changed: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id.dev, id.ino = st.Dev, st.Ino
	}
	return id
}

// same reports whether now is the same folder and, if entries count, has the same
// entries.
func (id identity) same(now identity, entries bool) bool {
	return id.dir == now.dir && id.dev == now.dev && id.ino == now.ino && (!entries || id.changed.Equal(now.changed))
}

// afresh returns r with empty caches, for one search.
func (r *Root) afresh() *Root {
	once := *r
	once.folders, once.nodes, once.begun = map[string]*lookupResult{}, map[string]identity{}, time.Now()
	// Links of update-alternatives lead through this folder.
	_, _ = once.list("/etc/alternatives")
	return &once
}

// mark returns what r has searched, for later comparison through root.
func (r *Root) mark(root *Root) searchState {
	m := searchState{root: root, nodes: r.nodes, folders: map[string]identity{}, listed: map[string]bool{}, at: r.begun}
	for dir, f := range r.folders {
		m.folders[dir] = identityOf(f.entry.info, f.err)
		m.listed[dir] = f.listed
	}
	return m
}

// outdated reports whether a folder has changed. The zero mark is never outdated.
func (m searchState) outdated() bool {
	if m.root == nil {
		return false
	}
	now := m.root.afresh()
	for dir, was := range m.folders {
		e, err := now.folder(dir)
		if m.moved(was, identityOf(e.info, err), m.listed[dir]) {
			return true
		}
	}
	for p, was := range m.nodes {
		if m.moved(was, identityOf(os.Lstat(p)), true) {
			return true
		}
	}
	return false
}

func (m searchState) moved(was, now identity, entries bool) bool {
	unsettled := entries && was.dir && m.at.Sub(was.changed) < settled
	return unsettled || !was.same(now, entries)
}

// watched returns the folders whose entries count. For one that does not exist it
// returns the folder in which the first part of its path would appear.
func (m searchState) watched() []string {
	if m.root == nil {
		return nil
	}
	now := m.root.afresh()
	dirs := map[string]bool{}
	for rel := range m.folders {
		if m.listed[rel] {
			dirs[now.existing(rel)] = true
		}
	}
	for p := range m.nodes {
		for !isFolder(p) && p != "/" {
			p = path.Dir(p)
		}
		dirs[path.Clean(p)] = true
	}
	return slices.Sorted(maps.Keys(dirs))
}

// existing returns the deepest folder on the way to rel that exists, as this
// process sees it.
func (r *Root) existing(rel string) string {
	for ; rel != ""; rel = parentOf(rel) {
		if e, err := r.folder(rel); err == nil && e.info.IsDir() {
			return r.ctrPathOf(e)
		}
	}
	return r.ctr
}

func isFolder(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}
