package hostfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// target is one watched path.
type target struct {
	// path is the argument of NewWatcher. abs is the absolute path.
	path, abs string
	// real is the path with symbolic links resolved, as far as it exists.
	real string
	// link is set if the path itself is a symbolic link to a file.
	link bool
	// chain has the folders on the way, and the target if it is a folder.
	chain []string
	// via has the names that were followed on the way.
	via []string
}

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

// affectedBy returns whether an event for name may be a change at the path, and whether the target
// or a folder on the way to it may be a different one now.
func (t *target) affectedBy(name string, gone, created bool) (changed, moved bool) {
	switch {
	case name == t.real:
		return true, gone || created
	case filepath.Dir(name) == t.real:
		return true, false
	case !gone && !created:
		return false, false
	case t.link && filepath.Dir(name) == filepath.Dir(t.real):
		// A link on the way may have another target now.
		return true, true
	default:
		moved = slices.Contains(t.via, name) || strings.HasPrefix(t.real, name+"/")
		return moved, moved
	}
}
