package loader

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"outrigger.dev/pkg/hostfs"
)

// maxJournal bounds the journal.
const maxJournal = 1 << 20

// record is the content of the journal.
type record struct {
	// Loaded is the driver that this program has loaded last, with its parameters, and Works
	// the one that has worked last.
	Loaded Driver `json:"loaded"`
	Works  Driver `json:"works"`
	// Change is nil if none is going on.
	Change *Change `json:"change,omitempty"`
}

// journal is the file with what has to be known after a crash or a reboot.
type journal struct{ path string }

func newJournal(store string) journal { return journal{path: filepath.Join(store, "journal.json")} }

// read returns the journal, empty if there is none.
func (j journal) read() (record, error) {
	data, err := hostfs.ReadFile(j.path, maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, nil
	}
	var r record
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
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
	data, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(j.path), 0o700)
	}
	if err == nil {
		_, err = hostfs.WriteIfChanged(j.path, append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// forgive forgets a change that has failed.
func (j journal) forgive() error {
	return j.edit(func(r *record) {
		if r.Change != nil && r.Change.Failed != nil {
			r.Change = nil
		}
	})
}
