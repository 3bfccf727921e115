package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/text"
)

// ErrBusy is returned by a Resetter if something uses a GPU.
var ErrBusy = errors.New("the GPU is in use")

// SMI resets GPUs with nvidia-smi of the driver root. NVML has no call for it.
type SMI struct {
	// DriverRoot is where this process sees the driver root: the program runs in it. If
	// empty, it is "/".
	DriverRoot string
	// Limit is how long a reset may take. If 0, it is 2 min: GPUs with NVLinks take longer
	// than a few seconds.
	Limit time.Duration
}

var _ Resetter = SMI{}

const (
	smiPath = "/usr/bin/nvidia-smi"
	// most is how much of the output is in an error.
	mostOutput = 2000
)

// Reset resets GPUs together. The error has what nvidia-smi printed.
func (s SMI) Reset(ctx context.Context, gpus []mig.GPU) error {
	ids := make([]string, 0, len(gpus))
	for _, g := range gpus {
		ids = append(ids, g.PCI.BusID)
	}
	limit := cmp.Or(s.Limit, 2*time.Minute)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	root := filepath.Clean(cmp.Or(s.DriverRoot, "/"))
	args := []string{"-r", "-i", strings.Join(ids, ",")}
	cmd := exec.CommandContext(ctx, smiPath, args...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Dir = "/"
	if root != "/" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	}
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	said := text.Printable(strings.Join(strings.Fields(string(out[:min(len(out), mostOutput)])), " "))
	what := fmt.Sprintf("reset GPUs with nvidia-smi %s of driver root %s", strings.Join(args, " "), root)
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer in %s: %s", what, limit, said)
	case strings.Contains(strings.ToLower(said), "in use"):
		return fmt.Errorf("%s: %w: %s", what, ErrBusy, said)
	default:
		return fmt.Errorf("%s: %w: %s", what, err, said)
	}
}
