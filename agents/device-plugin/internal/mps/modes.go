package mps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/hostfs"
)

// The compute modes, as nvidia-smi accepts them.
const (
	modeDefault   = "DEFAULT"
	modeExclusive = "EXCLUSIVE_PROCESS"
)

// modes changes the compute modes of GPUs, and restores them. It records each change in a file
// first, so that the next process can restore the modes if this process is killed. It is safe
// for concurrent use, with one caller at a time for each GPU.
type modes struct {
	path     string
	programs Programs
	log      *slog.Logger

	mu sync.Mutex
	// before has the original mode of each GPU whose mode is changed.
	before map[gpu.UUID]string
}

// modesPath returns the path of the file that records the changes. Like the modes, the file
// lasts until the node reboots.
func modesPath(dir contract.Dir) string { return filepath.Join(dir.Root, "mps-compute-modes.json") }

// ModesRecorded reports whether an earlier process has changed compute modes and not restored
// them.
func ModesRecorded(dir contract.Dir) bool {
	_, err := os.Stat(modesPath(dir))
	return err == nil
}

// modesFile is the format of the file.
type modesFile struct {
	Version string `json:"version"`
	// Before has the original compute mode of each GPU whose mode is changed.
	Before map[gpu.UUID]string `json:"before"`
}

const modesVersion = "v1"

// maxModes is the largest size of the file, in bytes. A GPU takes less than 100 bytes.
const maxModes = 1 << 20

// newModes returns modes with the recorded changes of an earlier process.
func newModes(path string, p Programs, log *slog.Logger) *modes {
	m := &modes{path: path, programs: p, log: log, before: map[gpu.UUID]string{}}
	data, err := hostfs.ReadFile(path, maxModes)
	if errors.Is(err, fs.ErrNotExist) {
		return m
	}
	var f modesFile
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil || f.Version != modesVersion {
		log.Error("cannot read which compute modes were changed: check them with nvidia-smi -q -d COMPUTE, then remove the file",
			"file", path, "version", f.Version, "err", err)
		return m
	}
	maps.Copy(m.before, f.Before)
	return m
}

// setExclusive sets the mode that lets only the MPS server use the GPU.
func (m *modes) setExclusive(ctx context.Context, id gpu.UUID) error {
	if _, ours := m.original(id); !ours {
		mode, err := m.programs.computeMode(ctx, id)
		if err != nil {
			return err
		}
		if mode == modeExclusive {
			return nil
		}
		m.record(func() { m.before[id] = mode })
	}
	return m.programs.setComputeMode(ctx, id, modeExclusive)
}

// restore restores the mode of the GPU if it was changed.
func (m *modes) restore(ctx context.Context, id gpu.UUID) error {
	mode, ours := m.original(id)
	if !ours {
		return nil
	}
	if err := m.programs.setComputeMode(ctx, id, mode); err != nil {
		return err
	}
	m.record(func() { delete(m.before, id) })
	return nil
}

// original returns the original mode of the GPU. ours is false if its mode was not changed.
func (m *modes) original(id gpu.UUID) (before string, ours bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, ours = m.before[id]
	return before, ours
}

// restoreExcept restores the modes of all GPUs that are not in keep.
func (m *modes) restoreExcept(ctx context.Context, keep map[gpu.UUID]bool) {
	m.mu.Lock()
	ids := slices.Sorted(maps.Keys(m.before))
	m.mu.Unlock()
	for _, id := range ids {
		if keep[id] {
			continue
		}
		if err := m.restore(ctx, id); err != nil {
			m.log.Warn("cannot restore the compute mode of a gpu, retrying when gpus or config change", "gpu", id, "err", err)
		}
	}
}

// record calls f to change the map m.before, and then writes the map to the file. If it cannot
// write the file, MPS works, but the modes stay changed if this process is killed.
func (m *modes) record(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	if err := m.write(); err != nil {
		m.log.Warn("cannot record changed compute modes, they will not be restored if this process is killed", "err", err)
	}
}

func (m *modes) write() error {
	if len(m.before) == 0 {
		if err := os.Remove(m.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := json.MarshalIndent(modesFile{Version: modesVersion, Before: m.before}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode compute modes: %w", err)
	}
	return hostfs.WriteFile(m.path, append(data, '\n'), 0o600)
}
