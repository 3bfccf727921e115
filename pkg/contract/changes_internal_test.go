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

// TestEachChangeOfAFactWakes waits with checks that never come, so that only events
// of the kernel can end the wait.
func TestEachChangeOfAFactWakes(t *testing.T) {
	write := func(d Dir) error { return d.Write(ToolkitReady, Record{Writer: "container-toolkit"}) }
	var held *Held
	hold := func(d Dir) (err error) {
		held, err = d.HoldFile(d.Path(PluginReady), Record{Writer: "device-plugin"})
		return err
	}
	cases := map[string]struct {
		before, change func(Dir) error
	}{
		"a file is written":         {change: write},
		"a file is replaced":        {before: write, change: write},
		"a file is removed":         {before: write, change: func(d Dir) error { return d.Remove(ToolkitReady) }},
		"a file is held":            {change: hold},
		"a held file is withdrawn":  {before: hold, change: func(Dir) error { return held.Release() }},
		"the writer of a file dies": {before: hold, change: func(Dir) error { return held.file.Close() }},
		"a shell writes a file in place": {
			before: write, change: func(d Dir) error { return os.WriteFile(d.Path(ToolkitReady), []byte("A=1\n"), 0o600) },
		},
		"a link is put in a file's place": {
			before: write, change: func(d Dir) error {
				link := d.Path("link")
				return errors.Join(os.Symlink("/dev/null", link), os.Rename(link, d.Path(ToolkitReady)))
			},
		},
		"a file is moved away": {
			before: write, change: func(d Dir) error { return os.Rename(d.Path(ToolkitReady), filepath.Join(d.Root, "..", "old")) },
		},
		"a file is moved here": {
			before: func(d Dir) error { return os.WriteFile(filepath.Join(d.Root, "..", "new"), nil, 0o600) },
			change: func(d Dir) error { return os.Rename(filepath.Join(d.Root, "..", "new"), d.Path(ToolkitReady)) },
		},
		"the folder appears":     {before: func(d Dir) error { return os.Remove(d.folder()) }, change: write},
		"the folder is removed":  {change: func(d Dir) error { return os.Remove(d.folder()) }},
		"the folder is moved":    {change: func(d Dir) error { return os.Rename(d.folder(), filepath.Join(d.Root, "old")) }},
		"the run root is moved":  {change: func(d Dir) error { return os.Rename(d.Root, d.Root+".old") }},
		"the run root goes away": {change: func(d Dir) error { return os.RemoveAll(d.Root) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Dir{Root: filepath.Join(t.TempDir(), "nvidia")}
			if err := os.MkdirAll(d.folder(), 0o755); err != nil {
				t.Fatal(err)
			}
			if tc.before != nil {
				if err := tc.before(d); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			c := d.changes(d.folder())
			c.first, c.last = time.Hour, time.Hour
			asked := 0
			err := c.wait(ctx, func() bool {
				asked++
				if asked == 1 {
					if err := tc.change(d); err != nil {
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

// TestReadersWakeNobody: each check reads the files, and would be the cause of the
// next one.
func TestReadersWakeNobody(t *testing.T) {
	d := Dir{Root: t.TempDir()}
	held, err := d.HoldFile(d.Path(PluginReady), Record{Writer: "device-plugin"})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := d.changes(d.folder()).add(fd, map[int]bool{}); err != nil {
		t.Fatal(err)
	}
	d.readAll()
	buf := make([]byte, 4096)
	if n, err := unix.Read(fd, buf); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("reading the facts causes events: %q, %v", buf[:max(n, 0)], err)
	}
}

// TestAWatchThatFailedIsTriedAgain: while all inotify instances are in use, changes are
// polled, and from then on they are watched.
func TestAWatchThatFailedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Dir{Root: t.TempDir()}.changes()
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
