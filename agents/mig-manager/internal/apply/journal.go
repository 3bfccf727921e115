package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/hostfs"
)

const (
	journalName    = "journal.json"
	journalVersion = 1
	// journalLimit is the most bytes that are read of a journal.
	journalLimit = 4 << 20
)

// journal is what is under way on a node. It is on the disk before the first change, and
// loses a GPU once that is observed to be at one of its two states.
type journal struct {
	Version int     `json:"version"`
	GPUs    []entry `json:"gpus"`
}

// entry is a GPU that is under way.
type entry struct {
	UUID  gpu.UUID `json:"uuid"`
	Index int      `json:"index"`
	// Before is what the GPU was, and Goal what it shall be.
	Before mig.State `json:"before"`
	Goal   mig.State `json:"goal"`
	// Desired is what the request asked, null for a GPU that is only reset with another.
	Desired *mig.Desired `json:"desired,omitempty"`
}

func (j journal) find(id gpu.UUID) (entry, bool) {
	i := slices.IndexFunc(j.GPUs, func(e entry) bool { return e.UUID == id })
	if i < 0 {
		return entry{}, false
	}
	return j.GPUs[i], true
}

// put adds an entry, in place of that of the same GPU.
func (j *journal) put(e entry) {
	j.drop(e.UUID)
	j.GPUs = append(j.GPUs, e)
}

func (j *journal) drop(id gpu.UUID) {
	j.GPUs = slices.DeleteFunc(j.GPUs, func(e entry) bool { return e.UUID == id })
}

// store is the folder of the journal.
type store string

func (s store) path() string { return filepath.Join(string(s), journalName) }

// load reads the journal. One that cannot be understood is moved aside, and the error names
// the new file; the journal is empty then.
func (s store) load() (journal, error) {
	data, err := hostfs.ReadFile(s.path(), journalLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return journal{}, nil
	}
	if err != nil {
		return journal{}, fmt.Errorf("read journal: %w", err)
	}
	var j journal
	if err = json.Unmarshal(data, &j); err == nil {
		err = j.check()
	}
	if err == nil {
		return j, nil
	}
	aside := s.path() + ".unreadable"
	return journal{}, &BadJournal{Path: s.path(), Aside: aside, Err: errors.Join(err, os.Rename(s.path(), aside))}
}

func (j journal) check() error {
	if j.Version != journalVersion {
		return fmt.Errorf("version %d, want %d", j.Version, journalVersion)
	}
	for _, e := range j.GPUs {
		if !e.UUID.Valid() {
			return fmt.Errorf("%+q is not the UUID of a GPU", e.UUID)
		}
	}
	return nil
}

// save makes the journal durable. Without GPUs there is no file.
func (s store) save(j journal) error {
	if len(j.GPUs) == 0 {
		if err := os.Remove(s.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove journal: %w", err)
		}
		return nil // that the file comes back after a crash of the machine does no harm
	}
	j.Version = journalVersion
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := os.MkdirAll(string(s), 0o755); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := hostfs.WriteFile(s.path(), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// BadJournal says that the journal could not be understood. It was moved aside, and what is
// observed of the GPUs counts.
type BadJournal struct {
	Path, Aside string
	Err         error
}

// Error names both files and the cause.
func (e *BadJournal) Error() string {
	return fmt.Sprintf("journal %s is not readable, moved it to %s: %v", e.Path, e.Aside, e.Err)
}

// Unwrap returns the cause.
func (e *BadJournal) Unwrap() error { return e.Err }
