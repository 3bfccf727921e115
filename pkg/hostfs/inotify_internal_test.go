package hostfs

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
)

// TestWatchesEndBeforeTheInstanceIsClosed: the kernel takes a while to end watches, for which
// a close would wait.
func TestWatchesEndBeforeTheInstanceIsClosed(t *testing.T) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	assert.NilError(t, err)
	in := os.NewFile(uintptr(fd), "inotify")
	watches := map[int]bool{}
	assert.NilError(t, addEntries(fd, []string{t.TempDir(), t.TempDir()}, watches))
	if n := watched(t, fd); n != 2 || len(watches) != 2 {
		t.Fatalf("%d paths are watched, and %d are known, want 2", n, len(watches))
	}
	EndInotify(in, maps.Keys(watches))
	if n := watched(t, fd); n != 0 {
		t.Errorf("%d paths are watched after the end, want none", n)
	}
	limit := time.After(5 * time.Minute)
	for in.SetReadDeadline(time.Now()) == nil {
		select {
		case <-limit:
			t.Fatal("the instance is not closed")
		case <-time.After(time.Millisecond):
		}
	}
	assert.ErrorIs(t, in.Close(), os.ErrClosed)
}

// watched returns how many paths an inotify instance watches, see proc_pid_fdinfo(5).
func watched(t *testing.T, fd int) int {
	t.Helper()
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	assert.NilError(t, err)
	return strings.Count(string(info), "inotify wd:")
}
