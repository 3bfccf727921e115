package daemons

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Licensed reports whether the node has the license configuration of a virtual GPU.
func (s *Supervisor) Licensed() bool {
	_, err := os.Stat(s.cfg.License)
	return err == nil
}

// maxQuery is the largest output of nvidia-smi -q, in bytes. A GPU needs about 20 KiB.
const maxQuery = 4 << 20

// Query returns the output of nvidia-smi -q. It runs nvidia-smi of the driver root, or else of the
// host's own driver, in the agent's container, where the license client runs.
func (s *Supervisor) Query(ctx context.Context) (string, error) {
	const name = "nvidia-smi"
	cmd := exec.CommandContext(ctx, name, "-q")
	if own := filepath.Join(s.cfg.Root, "usr/bin", name); executable(own) {
		cmd = exec.CommandContext(ctx, own, "-q") //nolint:gosec // a program of the driver
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join(s.libraries(), ":"))
	}
	out, err := cmd.StdoutPipe()
	cmd.Stderr = cmd.Stdout
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", fmt.Errorf("run nvidia-smi -q: %w", err)
	}
	data, readErr := io.ReadAll(io.LimitReader(out, maxQuery+1))
	_ = out.Close() // ends a program that prints more
	err = errors.Join(readErr, cmd.Wait())
	switch {
	case len(data) > maxQuery:
		return "", fmt.Errorf("run nvidia-smi -q: it printed more than %d bytes", maxQuery)
	case err != nil:
		return "", fmt.Errorf("run nvidia-smi -q: %w%s", err, errorSuffix(data[max(0, len(data)-maxTail):]))
	}
	return string(data), nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
