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
	// journalLimit is the largest size of a journal, in bytes.
	journalLimit = 4 << 20
)

// journal lists the GPUs that are being changed. It is on the disk before the first change. A GPU is
// removed after it was observed in its previous or its desired state.
type journal struct {
	Version int     `json:"version"`
	GPUs    []entry `json:"gpus"`
}

// uuids returns the GPUs in the journal.
func (j *journal) uuids() (gpus []gpu.UUID) {
	for _, e := range j.GPUs {
		gpus = append(gpus, e.UUID)
	}
	return gpus
}

// entry is a GPU that is being changed.
type entry struct {
	UUID  gpu.UUID `json:"uuid"`
	Index int      `json:"index"`
	// Before is the previous state of the GPU, and Goal the desired one.
	Before mig.State `json:"before"`
	Goal   mig.State `json:"goal"`
	// Desired is the desired state in the request, null for a GPU that is only reset.
	Desired *mig.Desired `json:"desired,omitempty"`
}

func (j journal) find(id gpu.UUID) (entry, bool) {
	i := slices.IndexFunc(j.GPUs, func(e entry) bool { return e.UUID == id })
	if i < 0 {
		return entry{}, false
	}
	return j.GPUs[i], true
}

// put adds an entry, or replaces the entry of the same GPU.
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

// load reads the journal, and removes the temporary files of killed processes. If the journal cannot be
// parsed, load renames it. The error then names the new file, and the returned journal is empty.
func (s store) load() (journal, error) {
	_ = hostfs.RemoveLeftovers(s.path()) // leftovers do no harm
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

// save writes the journal durably. It removes the file if the journal has no GPUs.
func (s store) save(j journal) error {
	if len(j.GPUs) == 0 {
		if err := os.Remove(s.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove journal: %w", err)
		}
		return nil // the file may come back after a crash of the machine, which does no harm
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

// BadJournal is the error for a journal that cannot be parsed. The journal was renamed, and the GPUs
// keep their observed states.
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
