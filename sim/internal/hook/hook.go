// Package hook is the program that OCI runtimes run while they create a container on a simulated node.
package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"outrigger.dev/sim/internal/mounts"
)

// Run shows the node at root in the container that state describes. A node that was removed after the
// runtime was asked to run the hook, also at the same time as the hook runs, is no error.
func Run(root string, state io.Reader) error {
	rootfs, err := rootOf(state)
	if err == nil {
		err = mounts.Inside(root, rootfs)
	}
	if _, gone := os.Lstat(root); errors.Is(gone, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("show the simulated GPUs in the container: %w; to run containers without them, set nri.enabled=false of the chart gpu-sim, or sim.nri.enabled=false of the chart outrigger", err)
	}
	return nil
}

// rootOf returns the root file system of a container.
func rootOf(state io.Reader) (string, error) {
	var container struct {
		Bundle string `json:"bundle"`
	}
	if err := json.NewDecoder(state).Decode(&container); err != nil {
		return "", fmt.Errorf("read the state of the container: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(container.Bundle, "config.json"))
	if err != nil {
		return "", fmt.Errorf("read the config of the container: %w", err)
	}
	var spec struct {
		Root struct {
			Path string `json:"path"`
		} `json:"root"`
	}
	if err := json.Unmarshal(data, &spec); err != nil {
		return "", fmt.Errorf("read the config of the container: %w", err)
	}
	switch path := spec.Root.Path; {
	case path == "":
		return "", fmt.Errorf("the config.json in %s names no root", container.Bundle)
	case filepath.IsAbs(path):
		return path, nil
	default:
		return filepath.Join(container.Bundle, path), nil
	}
}
