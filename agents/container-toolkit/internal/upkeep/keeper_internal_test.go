package upkeep

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/hostfs"
)

// TestAWatchThatFailedIsTriedAgain has no inotify instance for a while, and checks the part
// meanwhile.
func TestAWatchThatFailedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		puts, tries := 0, 0
		k := NewKeeper(Keeping{
			Part: Tools, Status: NewStatus(slog.New(slog.DiscardHandler), func(error) {}, Tools), Log: log,
			Put: func(context.Context) (Result, error) { puts++; return Result{Watched: []string{"/tools"}}, nil },
		})
		watches := make(chan func())
		k.entries = func(ctx context.Context, changed func(), _ ...string) error {
			if tries++; tries < 4 {
				return hostfs.InotifyError(unix.EMFILE)
			}
			watches <- changed
			<-ctx.Done()
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = k.Run(ctx) }()
		changed := <-watches
		synctest.Wait()
		before := puts
		changed()
		<-time.After(time.Minute)
		if synctest.Wait(); puts != before+1 {
			t.Errorf("%d calls of Put after a change, want one", puts-before)
		}
		cancel()
		<-ended
		if n := strings.Count(text.String(), "level=WARN"); n != 1 || !strings.Contains(text.String(), "max_user_instances") {
			t.Errorf("the log has %d warnings, want one with the fix:\n%s", n, text.String())
		}
	})
}
