package mps

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLog is the largest size of the log of a daemon, in bytes. Larger logs are truncated.
const maxLog = 1 << 20

// oldLog is the suffix of the file with the last part of a truncated log.
const oldLog = ".1"

// cutLogs truncates the logs in a folder that have grown too large. The daemon keeps its logs
// open and does not limit them.
func cutLogs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("truncate logs of MPS daemon: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasSuffix(e.Name(), oldLog) {
			errs = append(errs, cutLog(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

func cutLog(path string) error {
	info, err := os.Lstat(path)
	if err != nil || storedBytes(info) <= maxLog {
		return err
	}
	// If the file system is full, the copy is shorter.
	if err := copyEnd(path, info.Size()); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("truncate log of MPS daemon: %w", err)
	}
	return os.Truncate(path, 0)
}

// storedBytes returns how many bytes a file stores. After a truncation, the size of the file
// may include the removed part, because its writer continues at its old position.
func storedBytes(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return min(st.Blocks*512, info.Size())
	}
	return info.Size()
}

// copyEnd replaces the old log by the last part of the log.
func copyEnd(path string, size int64) error {
	log, err := os.Open(path)
	if err != nil {
		return err
	}
	defer log.Close()
	old, err := os.OpenFile(path+oldLog, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644) //nolint:gosec // its reader may be anyone, as for the log
	if err != nil {
		return err
	}
	_, err = io.Copy(old, io.NewSectionReader(log, max(size-maxLog, 0), maxLog))
	return errors.Join(err, old.Close())
}
