package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
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

// load reads the journal. If the journal is not valid, load renames it, logs that, and returns an empty journal.
func (s store) load(log *slog.Logger) (journal, error) {
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
	err = errors.Join(err, os.Rename(s.path(), aside))
	log.Warn("cannot read the journal, continuing with the present layouts of the gpus", "journal", s.path(), "moved_to", aside, "err", err)
	return journal{}, nil
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
	if err := hostfs.WriteJSON(s.path(), j, 0o644); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}
