package driverroot

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

// mark is the state of the folders in which something was looked for. With it
// a later look can be spared while nothing has come, gone or been replaced.
type mark struct {
	root    *Root
	folders map[string]identity
	// listed are those of folders whose entries count.
	listed map[string]bool
	nodes  map[string]identity
	// at is when the look began.
	at time.Time
}

// settled is how long a folder must have been left alone before its time of
// change can be trusted: the kernel's clock for it may stand still for some
// milliseconds, in which a second change leaves no trace.
const settled = 50 * time.Millisecond

// identity tells one state of a folder from another; zero if there is none.
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

// same reports whether it is the same folder, and, if its entries count,
// whether they are the same too.
func (id identity) same(now identity, entries bool) bool {
	return id.dir == now.dir && id.dev == now.dev && id.ino == now.ino && (!entries || id.changed.Equal(now.changed))
}

// afresh returns r for one look at everything.
func (r *Root) afresh() *Root {
	once := *r
	once.folders, once.nodes, once.begun = map[string]*found{}, map[string]identity{}, time.Now()
	// The links that update-alternatives makes lead through this folder.
	_, _ = once.list("/etc/alternatives")
	return &once
}

// mark returns what r has seen, to be compared with what is seen through root.
func (r *Root) mark(root *Root) mark {
	m := mark{root: root, nodes: r.nodes, folders: map[string]identity{}, listed: map[string]bool{}, at: r.begun}
	for dir, f := range r.folders {
		m.folders[dir] = identityOf(f.entry.info, f.err)
		m.listed[dir] = f.listed
	}
	return m
}

// outdated reports whether a folder is not what it was. What has no mark is
// never outdated.
func (m mark) outdated() bool {
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

func (m mark) moved(was, now identity, entries bool) bool {
	unsettled := entries && was.dir && m.at.Sub(was.changed) < settled
	return unsettled || !was.same(now, entries)
}
