package upgrade

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
)

// Journal is the state that lets a process continue after another one was killed. It is written
// before each action. All actions may be repeated.
type Journal struct {
	State State `json:"state"`
	// Target is the new driver, and Previous the old one.
	Target   string `json:"target,omitempty"`
	Previous string `json:"previous,omitempty"`
	// Attempts counts the attempts of the action of this state.
	Attempts int `json:"attempts,omitempty"`
	// Since is the start of the state.
	Since time.Time `json:"since,omitzero"`
	// Requested is set if RequestedAnnotation requested the upgrade. The annotation is removed when the
	// upgrade begins.
	Requested bool `json:"requested,omitempty"`
	// Broken is set if Target stayed loaded after a failure.
	Broken bool `json:"broken,omitempty"`
	// Failed is the target of the last failed upgrade, until an upgrade succeeds.
	Failed string `json:"failed,omitempty"`
	// Untouched is set if an upgrade ends without a change of the driver. The device plugin then is
	// not awaited.
	Untouched bool `json:"untouched,omitempty"`
	// WasCordoned is set if the node was already cordoned. It is for other tools. CordonedAnnotation
	// decides whether this agent uncordons the node.
	WasCordoned bool `json:"wasCordoned,omitempty"`
	// Cause is the reason why the last upgrade failed, or why the upgrade waits.
	Cause *cause.Cause `json:"cause,omitempty"`
}

// Driver returns the driver to load on a node without a driver, for example after a reboot. This is target,
// unless its upgrade has failed or is rolled back.
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

// maxJournal is the largest size of a journal, in bytes. A cause can name many pods.
const maxJournal = 256 << 10

// ReadJournal reads the journal at path. On a node that was never upgraded, the file does not exist.
func ReadJournal(path string) (Journal, error) {
	j, err := hostfs.ReadJSON[Journal](path, maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return Journal{}, nil
	}
	if err == nil && !j.State.Known() {
		err = fmt.Errorf("it has the unknown state %q", j.State)
	}
	if err != nil {
		return Journal{}, fmt.Errorf("read the journal of the upgrade %s: %w", path, err)
	}
	return j, nil
}

// Write writes the journal to path. It removes the file if the state is Idle and no upgrade has failed.
func (j Journal) Write(path string) error {
	if j.State == Idle && j.Failed == "" {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the journal of the upgrade: %w", err)
		}
		return nil
	}
	if err := hostfs.WriteJSON(path, j, 0o644); err != nil {
		return fmt.Errorf("write the journal of the upgrade: %w", err)
	}
	return nil
}
