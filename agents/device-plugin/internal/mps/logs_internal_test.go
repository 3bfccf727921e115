package mps

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
)

func TestLogsAreCut(t *testing.T) {
	dir := t.TempDir()
	// A writer that does not append continues where it was.
	log, err := os.OpenFile(filepath.Join(dir, "control.log"), os.O_CREATE|os.O_WRONLY, 0o600)
	assert.NilError(t, err)
	defer log.Close()
	write := func(text string, times int) {
		t.Helper()
		if _, err := log.Write(bytes.Repeat([]byte(text), times)); err != nil {
			t.Fatal(err)
		}
	}
	used := func() (bytes int64) {
		t.Helper()
		for _, name := range []string{"control.log", "control.log" + oldLog} {
			info, err := os.Stat(filepath.Join(dir, name))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			assert.NilError(t, err)
			bytes += storedBytes(info)
		}
		return bytes
	}
	cut := func() {
		t.Helper()
		assert.NilError(t, cutLogs(dir))
	}
	write("1", maxLog/2)
	cut()
	if got := used(); got != maxLog/2 {
		t.Errorf("a small log has %d bytes, want it as it is", got)
	}
	for _, digit := range []string{"2", "3", "4"} {
		write(digit, 2*maxLog)
		cut()
		if got := used(); got > maxLog+1<<13 {
			t.Errorf("the logs use %d bytes after a cut", got)
		}
		old, err := os.ReadFile(filepath.Join(dir, "control.log"+oldLog))
		if err != nil || len(old) != maxLog || string(old[0]) != digit || string(old[maxLog-1]) != digit {
			t.Errorf("the old log has %d bytes (error %v), want the last %d of the log", len(old), err, maxLog)
		}
	}
	write("end", 1)
	cut()
	if data, err := os.ReadFile(filepath.Join(dir, "control.log")); err != nil || !bytes.HasSuffix(data, []byte("end")) {
		t.Errorf("the log lacks what was written after the cut: %v", err)
	}
}

// A daemon whose file system is full would log nothing more, for ever.
func TestLogsThatFillTheirFileSystemAreCut(t *testing.T) {
	dir := t.TempDir()
	if err := (tmpfs{path: dir, mode: 0o755, bytes: 2 * maxLog, files: 10}).mount(); errors.Is(err, unix.EPERM) {
		t.Skipf("this machine has no right to mount: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	log := filepath.Join(dir, "server.log")
	text := bytes.Repeat([]byte("1"), 2*maxLog)
	for range 2 {
		if err := os.WriteFile(log, text, 0o600); !errors.Is(err, unix.ENOSPC) && err != nil {
			t.Fatal(err)
		}
		assert.NilError(t, cutLogs(dir))
		if err := os.WriteFile(log, text[:maxLog/2], 0o600); err != nil {
			t.Errorf("there is no room after the logs were cut: %v", err)
		}
	}
}
