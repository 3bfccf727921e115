package hostfs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWatchIsTriedAgain: while all inotify instances are in use, changes are polled, and
// from then on they are watched.
func TestWatchIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	failures, calls := 3, 0
	watching{
		new: func(paths ...string) (*Watcher, error) {
			if failures > 0 {
				failures--
				return nil, fmt.Errorf("watch %s: %w", paths, InotifyError(unix.EMFILE))
			}
			return NewWatcher(paths...)
		},
		poll: time.Millisecond,
		log:  slog.New(slog.DiscardHandler),
		changed: func() {
			switch calls++; calls {
			case 1, 2, 3: // polled
			case 4: // watched
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Error(err)
				}
			default:
				cancel()
			}
		},
		paths: []string{path},
	}.run(ctx)
	if calls != 5 || failures != 0 {
		t.Errorf("%d calls with %d failures left, want 3 while polling, one when the watch begins, and one for the change", calls, failures)
	}
}
