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

// searchState is the state of the folders that Find searched. If it has not changed, no file was
// added, removed or replaced, and Find would return the same result.
type searchState struct {
	root    *Root
	folders map[string]identity
	// listed has the folders whose entries count.
	listed map[string]bool
	nodes  map[string]identity
	// at is the start time of the search.
	at time.Time
}

// settled is the minimum age of a folder's modification time. The kernel updates its clock for
// these times only every few milliseconds, so a second change within this time would not be
// visible.
const settled = 50 * time.Millisecond

// identity identifies the state of a folder. It is zero if the folder does not exist.
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

// same reports whether now is the same folder and, if entries is set, has the same entries.
func (id identity) same(now identity, entries bool) bool {
	return id.dir == now.dir && id.dev == now.dev && id.ino == now.ino && (!entries || id.changed.Equal(now.changed))
}

// afresh returns a copy of r with empty caches, for one search.
func (r *Root) afresh() *Root {
	once := *r
	once.folders, once.nodes, once.begun = map[string]*lookupResult{}, map[string]identity{}, time.Now()
	// Links of update-alternatives lead through this folder.
	_, _ = once.list("/etc/alternatives")
	return &once
}

// mark returns the state of the folders that r has searched. The argument root is the Root that
// later compares the state.
func (r *Root) mark(root *Root) searchState {
	m := searchState{root: root, nodes: r.nodes, folders: map[string]identity{}, listed: map[string]bool{}, at: r.begun}
	for dir, f := range r.folders {
		m.folders[dir] = identityOf(f.entry.info, f.err)
		m.listed[dir] = f.listed
	}
	return m
}

// outdated reports whether a folder has changed. The zero searchState is never outdated.
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

// watched returns the folders whose entries count. For a folder that does not exist, it returns the
// folder where the first missing part of its path would appear.
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

// existing returns the deepest existing folder on the path to rel, as this process sees it.
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
