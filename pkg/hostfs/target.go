package hostfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// target is one watched path.
type target struct {
	// path is as passed to NewWatcher, and abs is absolute.
	path, abs string
	// real is the path with symbolic links resolved, as far as it exists.
	real string
	// link is set if the path itself is a symbolic link to a file.
	link bool
	// chain has the folders on the way, and the target if that is a folder.
	chain []string
	// via has the names that were followed on the way.
	via []string
	// id identifies the file at the path; zero if there is none.
	id identity
	// appeared is set after an event for a new file, until compare finds it. If it does
	// not, an event for the removal follows.
	appeared bool
	// op is what has happened since the last report.
	op Op
}

// identity identifies a file. The kernel reuses the numbers after a removal, so a noticed
// removal resets it.
type identity struct{ dev, ino uint64 }

func (t *target) deepest() string { return t.chain[len(t.chain)-1] }

// resolve follows the path as far as it exists.
func (t *target) resolve() {
	t.chain, t.via, t.real, t.link = []string{"/"}, nil, "/", false
	names := strings.Split(strings.TrimPrefix(t.abs, "/"), "/")
	if t.abs == "/" {
		return
	}
	for i, name := range names {
		next := filepath.Join(t.deepest(), name)
		rest := names[i+1:]
		t.real = filepath.Join(append([]string{next}, rest...)...)
		t.via = append(t.via, next)
		real, err := filepath.EvalSymlinks(next)
		if err != nil {
			t.link = len(rest) == 0 && isLink(next)
			return
		}
		fi, err := os.Stat(real)
		if err != nil || !fi.IsDir() {
			t.link = real != next
			return
		}
		t.chain = append(t.chain, real)
		t.real = filepath.Join(append([]string{real}, rest...)...)
	}
}

func isLink(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.Mode()&os.ModeSymlink != 0
}

// note applies an event for name, and reports whether the target or a folder on the way to
// it may have appeared or disappeared. compare sets Created, so that it is reported once per
// file.
func (t *target) note(name string, gone, created bool) (moved bool) {
	switch {
	case name == t.real && gone:
		t.gone()
		return true
	case name == t.real && created:
		t.appeared = true
		return true
	case name == t.real:
		t.op |= Written
		return false
	case filepath.Dir(name) == t.real:
		t.op |= Written
		return false
	case gone && strings.HasPrefix(t.real, name+"/"):
		t.gone()
		return true
	case t.link && filepath.Dir(name) == filepath.Dir(t.real):
		// A link on the way may have another target now.
		return true
	default:
		return (gone || created) && (slices.Contains(t.via, name) || strings.HasPrefix(t.real, name+"/"))
	}
}

// gone records that the file at the path was removed or replaced.
func (t *target) gone() {
	if t.id != (identity{}) || t.appeared {
		t.op = t.op&^Created | Removed
	}
	t.id, t.appeared = identity{}, false
}

// compare records whether the file at the path is another one than before.
func (t *target) compare() {
	var id identity
	if fi, err := os.Stat(t.real); err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			id = identity{dev: st.Dev, ino: st.Ino}
		}
	}
	appeared := t.appeared
	if id != (identity{}) {
		t.appeared = false
	}
	if id == t.id {
		if id != (identity{}) && appeared {
			// The last of several new files may have the number of the first.
			t.op |= Written
		}
		return
	}
	t.gone()
	if id != (identity{}) {
		t.op |= Created
		t.id = id
	}
}
