package daemons

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Licensed reports whether the node has the configuration of a virtual GPU's license.
func (s *Supervisor) Licensed() bool {
	_, err := os.Stat(s.cfg.License)
	return err == nil
}

// maxQuery bounds what nvidia-smi -q prints: about 20 KiB for each GPU.
const maxQuery = 4 << 20

// Query returns what nvidia-smi -q prints: that of the driver root, or without one that of the
// host's own driver. It runs where the license client does.
func (s *Supervisor) Query(ctx context.Context) (string, error) {
	out := bounded{most: maxQuery}
	const name = "nvidia-smi"
	cmd := exec.CommandContext(ctx, name, "-q")
	if own := filepath.Join(s.cfg.Root, "usr/bin", name); executable(own) {
		cmd = exec.CommandContext(ctx, own, "-q") //nolint:gosec // a program of the driver
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join(s.libraries(), ":"))
	}
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if out.over {
		return "", fmt.Errorf("run nvidia-smi -q: it has printed more than %d bytes", maxQuery)
	}
	if err != nil {
		end := out.data.Bytes()[max(0, out.data.Len()-maxTail):]
		return "", fmt.Errorf("run nvidia-smi -q: %w%s", err, errorSuffix(end))
	}
	return out.data.String(), nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// bounded keeps an output up to a size. A longer one ends the program. The buffer is not embedded:
// its ReadFrom has no bound.
type bounded struct {
	data bytes.Buffer
	most int
	over bool
}

// Write implements io.Writer.
func (b *bounded) Write(data []byte) (int, error) {
	if b.data.Len()+len(data) > b.most {
		b.over = true
		return 0, io.ErrShortWrite
	}
	return b.data.Write(data)
}
