package mps

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/hostfs"
)

// dirs are the folders of one daemon. Its clients write to pipe and to shm.
type dirs struct{ pipe, log, shm string }

func dirsOf(root, folder string) dirs {
	pipe := allocate.MPSPipe(root, folder)
	return dirs{pipe: pipe, log: filepath.Join(filepath.Dir(pipe), "log"), shm: allocate.MPSShm(root, folder)}
}

func (d dirs) env() []string {
	return []string{"CUDA_MPS_PIPE_DIRECTORY=" + d.pipe, "CUDA_MPS_LOG_DIRECTORY=" + d.log}
}

// create mounts the folders for this number of clients. It removes the pipes and shared memory of
// an earlier daemon, because a client would take an old pipe for a running daemon. It keeps logs.
func (d dirs) create(clients int) error {
	// NVIDIA's program does not report why it cannot create its socket.
	if err := hostfs.CheckSocketPath(filepath.Join(d.pipe, "control_privileged")); err != nil {
		return fmt.Errorf("create socket of MPS daemon: %w", err)
	}
	for _, dir := range []string{d.pipe, d.shm} {
		if err := clearFolder(dir); err != nil {
			return err
		}
	}
	for _, t := range d.filesystems(clients) {
		if err := t.mount(); err != nil {
			return err
		}
	}
	return nil
}

func clearFolder(dir string) error {
	left, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clear folder of MPS daemon: %w", err)
	}
	for _, entry := range left {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("clear folder of MPS daemon: %w", err)
		}
	}
	return nil
}

func readyPath(root, folder string) string {
	return filepath.Join(root, folder, "ready")
}
