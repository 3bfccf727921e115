package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/text"
)

// ErrBusy is returned by a Resetter if a GPU is in use.
var ErrBusy = errors.New("the GPU is in use")

// SMI resets GPUs with nvidia-smi of the driver root, because NVML has no function for it. The driver
// root is the root folder of the program.
type SMI struct {
	// DriverRoot is the driver root, as a path of this process. Default: "/".
	DriverRoot string
	// Program is the path of nvidia-smi in the driver root. If empty, the usual folders are searched.
	Program string
	// Limit is the time limit of a reset. Default: 2 min.
	Limit time.Duration
}

var _ Resetter = SMI{}

// Reset resets GPUs together. The error has the output of nvidia-smi. It wraps ErrBusy if nvidia-smi
// reports that a GPU is in use.
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
	cmd := exec.CommandContext(ctx, s.program(root), args...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Dir = "/"
	if root != "/" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	}
	cmd.WaitDelay = time.Second
	var out text.Tail
	cmd.Stdout, cmd.Stderr = &out, &out
	err := runUntil(cmd, limit+killGrace)
	said := text.Printable(strings.Join(strings.Fields(out.String()), " "))
	what := fmt.Sprintf("reset GPUs with nvidia-smi %s of driver root %s", strings.Join(args, " "), root)
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer in %s: %s", what, limit, said)
	case reportsBusy(said):
		return fmt.Errorf("%s: %w: %s", what, ErrBusy, said)
	default:
		return fmt.Errorf("%s: %w: %s", what, err, said)
	}
}

// reportsBusy reports whether an output of nvidia-smi says that a GPU is in use. The text depends on
// the version.
func reportsBusy(said string) bool {
	said = strings.ToLower(said)
	return strings.Contains(said, "in use") || strings.Contains(said, "being used")
}

// program returns the path of nvidia-smi in the driver root.
func (s SMI) program(root string) string {
	const usual = "/usr/bin/nvidia-smi"
	for _, p := range []string{s.Program, usual, "/bin/nvidia-smi", "/usr/local/bin/nvidia-smi", "/opt/bin/nvidia-smi"} {
		if _, err := os.Stat(filepath.Join(root, p)); err == nil && p != "" {
			return p
		}
	}
	return cmp.Or(s.Program, usual)
}

// killGrace is how long to wait for nvidia-smi after it was killed. SIGKILL does not end it while a
// call of the driver hangs.
const killGrace = 5 * time.Second

// runUntil runs a command, and abandons it after a time limit.
func runUntil(cmd *exec.Cmd, limit time.Duration) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Run() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return context.DeadlineExceeded
	}
}
