package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// Settle makes a program lie in memory as it does on a node: read from the disk.
// Of one that was just built more is mapped at once, and counts as memory of the
// process, although it asks for no more of it.
func Settle(ctx context.Context, program string) error {
	f, err := os.Open(program)
	if err != nil {
		return fmt.Errorf("settle program: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("settle program: %w", err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil { //nolint:gosec // a file descriptor
		return fmt.Errorf("settle program %s: drop it from the page cache: %w", program, err)
	}
	// Nothing that is measured reads it first.
	if out, err := exec.CommandContext(ctx, program, "version").CombinedOutput(); err != nil {
		return fmt.Errorf("run %s version: %w: %s", program, err, out)
	}
	return nil
}
