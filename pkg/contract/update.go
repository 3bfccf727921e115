package contract

import (
	"fmt"
	"path/filepath"
	"time"
)

// Update changes a fact that several agents write. It calls change with the current fact while no
// other process can update a fact, and publishes the result, unless that is nil. It waits a second at
// most for other processes. It returns ErrNoRunRoot on a node without a run root.
func (d Dir) Update(n Name, writer string, change func(Fact) (*Record, error)) error {
	return d.UpdateFile(d.Path(n), writer, change)
}

// UpdateFile is Update for a fact in a file outside the folder of the facts. The folder of the file
// must exist. The file survives a reboot and is durable, but its fact is Stale after the reboot.
func (d Dir) UpdateFile(path, writer string, change func(Fact) (*Record, error)) error {
	turn, err := d.acquireTurn(writer, time.Now().Add(turnWait))
	if err != nil {
		return fmt.Errorf("update %s: %w", path, err)
	}
	defer turn.end() //nolint:errcheck // nothing more is written through it
	record, err := change(d.read(path))
	if err != nil || record == nil {
		return err
	}
	if record.Writer == "" {
		record.Writer = writer
	}
	record.durable = filepath.Dir(path) != d.folder()
	held, err := d.put(path, *record, false)
	if err != nil {
		return err
	}
	return held.file.Close()
}
