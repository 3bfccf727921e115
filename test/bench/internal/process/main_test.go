package process_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"outrigger.dev/test/bench/internal/process"
)

// TestMain lets the test binary run as bench, and as a program that uses memory.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case process.OnceCommand:
		if err := process.RunOnce(context.Background(), os.Args[3:], os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case eat:
		if err := fill(eaten); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

const (
	eat   = "eat"
	eaten = 96 // MiB
)

// fill uses so many MiB of memory, without a copy by the race detector.
func fill(mebibytes int) error {
	_, err := unix.Mmap(-1, 0, mebibytes<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE|unix.MAP_POPULATE)
	return err
}
