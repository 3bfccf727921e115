package mps

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"outrigger.dev/agents/device-plugin/internal/allocate"
)

// dirs are the folders of one daemon.
type dirs struct{ pipe, log string }

func dirsOf(root, resource string) dirs {
	pipe := allocate.MPSPipe(root, resource)
	return dirs{pipe: pipe, log: filepath.Join(filepath.Dir(pipe), "log")}
}

func (d dirs) env() []string {
	return []string{"CUDA_MPS_PIPE_DIRECTORY=" + d.pipe, "CUDA_MPS_LOG_DIRECTORY=" + d.log}
}

// create creates the folders, and removes what an earlier daemon left in the folder of
// the pipe: a client would take that for a running daemon.
func (d dirs) create() error {
	left, err := os.ReadDir(d.pipe)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clear folder of MPS pipes: %w", err)
	}
	for _, entry := range left {
		if err := os.RemoveAll(filepath.Join(d.pipe, entry.Name())); err != nil {
			return fmt.Errorf("clear folder of MPS pipes: %w", err)
		}
	}
	for _, dir := range []string{d.pipe, d.log} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create folder of MPS daemon: %w", err)
		}
	}
	return nil
}

func readyPath(root, resource string) string {
	return filepath.Join(filepath.Dir(allocate.MPSPipe(root, resource)), "ready")
}
