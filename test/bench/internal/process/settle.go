package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// Settle drops a program from the page cache, so that it is read from the disk as on a node. For a
// program that was just built, the kernel maps more pages at a time, and they count as memory of
// the process.
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
	// Read the program again, so that the measurements do not include reading it.
	if out, err := exec.CommandContext(ctx, program, "version").CombinedOutput(); err != nil {
		return fmt.Errorf("run %s version: %w: %s", program, err, out)
	}
	return nil
}
