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
		return "", fmt.Errorf("run nvidia-smi -q: it printed more than %d bytes", maxQuery)
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

// bounded keeps an output up to a size. Write rejects a longer output, which ends the program. The
// buffer is not embedded, because its ReadFrom has no limit.
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
