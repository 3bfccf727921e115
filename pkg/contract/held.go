package contract

import (
	"errors"
	"io/fs"
	"os"
)

// Held is a published fact that is valid until Release. Keep a reference to the value, because its
// lock is released when it is garbage collected.
type Held struct {
	file *os.File
	path string
	// shown is the state of the file when it became visible.
	shown fs.FileInfo
}

// Intact reports whether the file is still at its path and unchanged.
func (h *Held) Intact() bool {
	there, err := os.Lstat(h.path)
	return err == nil && os.SameFile(h.shown, there) && there.Mode() == h.shown.Mode() &&
		there.Size() == h.shown.Size() && there.ModTime().Equal(h.shown.ModTime())
}

// replaced reports whether another living process has published the fact after this process.
func (h *Held) replaced(d Dir) bool {
	there, err := os.Lstat(h.path)
	if err != nil || os.SameFile(h.shown, there) {
		return false
	}
	_, locked := d.lockedBy(h.path)
	return locked
}

// Release deletes the file, unless another writer has replaced it, and unlocks it. It does not wait
// for other processes. If another writer replaces the file at the same moment, its Keeper writes
// the file again. Release does nothing for nil.
func (h *Held) Release() error {
	if h == nil {
		return nil
	}
	var err error
	if there, errThere := os.Lstat(h.path); errThere == nil && os.SameFile(h.shown, there) {
		if err = os.Remove(h.path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, unlock(h.file))
}
