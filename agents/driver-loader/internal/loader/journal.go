package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"outrigger.dev/pkg/hostfs"
)

// maxJournal is the largest size of the journal, in bytes.
const maxJournal = 1 << 20

// record is the content of the journal.
type record struct {
	// Loaded is the driver that this program loaded last, with its parameters. Works is the driver
	// that worked last.
	Loaded Driver `json:"loaded"`
	Works  Driver `json:"works"`
	// Change is the current change, or nil.
	Change *Change `json:"change,omitempty"`
	// Failure is the last step that failed, or nil after a success.
	Failure *Failure `json:"failure,omitempty"`
	// Tried has the failed attempts to load optional modules, by Driver.Attempt.
	Tried map[string]Attempt `json:"tried,omitempty"`
}

// journal is the file with the state that must survive a crash or a reboot.
type journal struct{ path string }

func newJournal(store string) journal { return journal{path: filepath.Join(store, "journal.json")} }

// read returns the journal. A missing journal is empty.
func (j journal) read() (record, error) {
	r, err := hostfs.ReadJSON[record](j.path, maxJournal)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return record{}, fmt.Errorf("read the journal (remove it if it is damaged: %s): %w", j.path, err)
	}
	return r, nil
}

// edit changes the journal.
func (j journal) edit(change func(r *record)) error {
	r, err := j.read()
	if err != nil {
		return err
	}
	change(&r)
	if err := hostfs.WriteJSON(j.path, r, 0o600); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// forgive removes failures from the journal, so that a driver and its optional modules are tried again.
func (j journal) forgive() error {
	return j.edit(func(r *record) {
		r.Tried = nil
		if r.Change != nil && r.Change.Failed != nil {
			r.Change = nil
		}
	})
}

// forgiveFirst removes a failed driver that was replaced by the kernel's own driver.
func (j journal) forgiveFirst() error {
	r, _ := j.read() // Observe reports a journal that cannot be read
	if r.Change == nil || len(r.Change.Restored) == 0 {
		return nil
	}
	return j.edit(func(r *record) { r.Change = nil })
}
