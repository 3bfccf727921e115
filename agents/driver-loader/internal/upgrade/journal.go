package upgrade

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
)

// Journal is what a process that was killed has to know to go on. It is written before each
// action. All actions may be repeated.
type Journal struct {
	State State `json:"state"`
	// Target is the driver that the node gets, and Previous the one that it had.
	Target   string `json:"target,omitempty"`
	Previous string `json:"previous,omitempty"`
	// Attempts counts the beginnings of the action of this state.
	Attempts int `json:"attempts,omitempty"`
	// Since is when the state began.
	Since time.Time `json:"since,omitzero"`
	// Requested is set if the node was asked to upgrade by RequestedAnnotation, which is removed
	// when the upgrade begins.
	Requested bool `json:"requested,omitempty"`
	// Broken is set after a failure that left Target loaded.
	Broken bool `json:"broken,omitempty"`
	// Failed is the target of the last upgrade that failed, until one succeeds.
	Failed string `json:"failed,omitempty"`
	// Untouched is set on the way back to a schedulable node if the upgrade has left the driver
	// as it was: nothing has to recover from a change of it.
	Untouched bool `json:"untouched,omitempty"`
	// WasCordoned is set if somebody else had cordoned the node. It is for other tools:
	// CordonedAnnotation decides what is uncordoned.
	WasCordoned bool `json:"wasCordoned,omitempty"`
	// Cause is why the last upgrade failed, or what it waits for.
	Cause *cause.Cause `json:"cause,omitempty"`
}

// Driver returns the driver that the loader loads on a node that has none, for example after a
// reboot: the desired one, unless its upgrade failed or is on its way back.
func (j Journal) Driver(target string) string {
	switch j.State {
	case Failed, RollingBack, Restoring, RollingBackToYield:
		if j.Target == target && j.Previous != "" {
			return j.Previous
		}
	default:
	}
	return target
}

// maxJournal is the most bytes of a journal: a cause can name many pods.
const maxJournal = 256 << 10

// ReadJournal reads the journal at path. No file is a node that has never been upgraded.
func ReadJournal(path string) (Journal, error) {
	data, err := hostfs.ReadFile(path, maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return Journal{}, nil
	}
	var j Journal
	if err == nil {
		err = json.Unmarshal(data, &j)
	}
	if err == nil && !j.State.Known() {
		err = fmt.Errorf("it has the unknown state %q", j.State)
	}
	if err != nil {
		return Journal{}, fmt.Errorf("read the journal of the upgrade %s: %w", path, err)
	}
	return j, nil
}

// Write writes the journal to path. A node at rest that was never upgraded has none.
func (j Journal) Write(path string) error {
	if j.State == Idle && j.Failed == "" {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the journal of the upgrade: %w", err)
		}
		return nil
	}
	data, err := json.Marshal(j)
	if err == nil {
		const mode = 0o644
		_, err = hostfs.WriteIfChanged(path, append(data, '\n'), mode)
	}
	if err != nil {
		return fmt.Errorf("write the journal of the upgrade: %w", err)
	}
	return nil
}
