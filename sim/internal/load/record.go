package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect" // records are compared before they are written

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/hostfs"
)

// The files in the folder of a node: the record of the loads, and its lock.
const (
	recordFile = "loads.json"
	lockFile   = "loads.lock"
)

// maxRecord is the maximum size of the record, in bytes.
const maxRecord = 4 << 20

// record has the loads of a node, and the values to restore when they end.
type record struct {
	Loads []Load `json:"loads,omitempty"`
	// Before has the values that fields had before the first load, by the UUID of the GPU, or by
	// UUID/GI for a GPU instance.
	Before map[string]map[string]uint64 `json:"before,omitempty"`
	// PIDs has the processes that Apply attached, by the UUID of the GPU.
	PIDs map[string][]int `json:"pids,omitempty"`
}

func (r record) empty() bool { return len(r.Loads) == 0 && len(r.Before) == 0 && len(r.PIDs) == 0 }

// Loads returns the recorded loads of the node in the folder root.
func Loads(root string) ([]Load, error) {
	r, err := read(root)
	return r.Loads, err
}

func read(root string) (record, error) {
	path := filepath.Join(root, recordFile)
	data, err := hostfs.ReadFile(path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, nil
	}
	var r record
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return record{}, fmt.Errorf("read the loads of the node: %w; remove %s, and set the values of the GPUs again", err, path)
	}
	return r, nil
}

// write replaces the record, unless it is equal to was.
func (r record) write(root string, was record) error {
	if reflect.DeepEqual(r, was) {
		return nil
	}
	path := filepath.Join(root, recordFile)
	data, err := json.Marshal(r)
	if err == nil && r.empty() {
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else if err == nil {
		err = hostfs.WriteFile(path, append(data, '\n'), 0o644) //nolint:mnd // readable by all
	}
	if err != nil {
		return fmt.Errorf("record the loads of the node: %w", err)
	}
	return nil
}

// withLock runs change while no other process changes the loads of the node.
func withLock(root string, change func() error) (err error) {
	f, err := os.OpenFile(filepath.Join(root, lockFile), os.O_RDWR|os.O_CREATE, 0o644) //nolint:mnd // as the record
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("lock the loads of the node: %w (run as root)", err)
	}
	if err != nil {
		return fmt.Errorf("lock the loads of the node: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return change()
}
