package contract

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// TestClosesAreSeen waits with polls that never come, so that only the kernel's
// events can end the wait.
func TestClosesAreSeen(t *testing.T) {
	cases := map[string]struct {
		mask uint32
		flag int
		do   func(f *os.File) error
	}{
		"a writer closes the file": {unix.IN_CLOSE_WRITE, os.O_RDWR, (*os.File).Close},
		"a reader closes the file": {unix.IN_CLOSE_NOWRITE, os.O_RDONLY, (*os.File).Close},
		"the file is removed":      {unix.IN_CLOSE_WRITE, os.O_RDONLY, func(f *os.File) error { return os.Remove(f.Name()) }},
		"another file is renamed over it": {unix.IN_CLOSE_WRITE, os.O_RDONLY, func(f *os.File) error {
			other := f.Name() + ".new"
			return errors.Join(os.WriteFile(other, nil, 0o600), os.Rename(other, f.Name()))
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, tc.flag, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			asked := 0
			c := Dir{}.closesOf(tc.mask, path)
			c.first, c.last = time.Hour, time.Hour
			err = c.wait(ctx, func() bool {
				asked++
				if asked == 1 {
					if err := tc.do(f); err != nil {
						t.Error(err)
					}
				}
				return asked == 2
			})
			if err = errors.Join(err, ctx.Err()); err != nil {
				t.Errorf("want to be woken, got %v", err)
			}
		})
	}
}

// TestAWatchThatFailedIsTriedAgain: while all inotify instances are in use, changes are
// polled, and from then on they are watched.
func TestAWatchThatFailedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Dir{}.closesOf(unix.IN_CLOSE_WRITE, filepath.Join(t.TempDir(), "file"))
		failures, asked, log := 0, 0, &strings.Builder{}
		c.log = slog.New(slog.NewTextHandler(log, nil))
		c.init = func(int) (int, error) {
			failures++
			return 0, unix.EMFILE
		}
		if err := c.wait(t.Context(), func() bool { asked++; return asked == 4 }); err != nil {
			t.Errorf("wait() = %v", err)
		}
		if failures != 4 || strings.Count(log.String(), "fs.inotify.max_user_instances") != 1 {
			t.Errorf("tried %d times to watch, want 4, and logged %q, want the cause once", failures, log)
		}
	})
}
