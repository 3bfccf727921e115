package mps_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/mps"
)

// fill writes to a file until there is no room, and returns how much there was.
func fill(t *testing.T, dir string) int {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "fill")) //nolint:forbidigo // it is a container's
	assert.NilError(t, err)
	defer f.Close()
	for n := 0; ; n++ {
		switch _, err := f.Write(make([]byte, 1<<20)); {
		case errors.Is(err, unix.ENOSPC):
			return n
		case err != nil:
			t.Fatal(err)
		case n > 1<<10:
			t.Fatalf("%s takes more than 1 GiB", dir)
		}
	}
}

func TestAClientCannotFillTheHost(t *testing.T) {
	r := newRig(t)
	r.Apply(t.Context(), []mps.Daemon{daemon("GPU-a")})
	r.eventually("the daemon is ready", r.ready)
	for dir, mebibytes := range map[string]int{"pipe": 1, "shm": 64, "log": 16} {
		if got := fill(t, filepath.Join(r.root, shared, dir)); got > mebibytes {
			t.Errorf("%s takes %d MiB, want at most %d", dir, got, mebibytes)
		}
	}
	for n := 0; ; n++ {
		err := os.WriteFile(filepath.Join(r.root, shared, "pipe", fmt.Sprint(n)), nil, 0o600)
		if errors.Is(err, unix.ENOSPC) {
			break
		}
		if err != nil || n > 1<<10 {
			t.Fatalf("the pipe's folder takes %d files (error %v)", n, err)
		}
	}
	// What a client has left does not keep the next daemon from starting.
	r.command("crash")
	r.eventually("the daemon is not ready", func() bool { return !r.ready() })
	r.eventually("the daemon is ready again", r.ready)
	for _, dir := range []string{"pipe", "shm"} {
		if _, err := os.Stat(filepath.Join(r.root, shared, dir, "fill")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s still has the file of a client of the last daemon: %v", dir, err)
		}
	}
}

func TestDaemonsDoNotShareMemory(t *testing.T) {
	r := newRig(t)
	other := daemon("GPU-b")
	other.Folder = "GPU-b"
	r.Apply(t.Context(), []mps.Daemon{daemon("GPU-a"), other})
	for folder, id := range map[string]string{shared: "GPU-a", other.Folder: "GPU-b"} {
		r.eventually("the daemon of "+folder+" is ready", func() bool { return mps.Ready(r.dir, r.root, folder) == nil })
		if got := r.read(filepath.Join(r.root, folder, "shm", "of-a-daemon")); got != id {
			t.Errorf("the shared memory of %s has what the daemon of %s wrote", folder, got)
		}
	}
	if _, err := os.Stat("/dev/shm/of-a-daemon"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a daemon writes to the shared memory of this process: %v", err)
	}
}

// A container keeps its mount of the folder, and has to find the next daemon in it.
func TestTheNextDaemonHasTheFoldersOfTheLast(t *testing.T) {
	r := newRig(t)
	inode := func() uint64 {
		var st unix.Stat_t
		assert.NilError(t, unix.Stat(filepath.Join(r.root, shared, "pipe"), &st))
		return st.Dev
	}
	r.Apply(t.Context(), []mps.Daemon{daemon("GPU-a")})
	r.eventually("the daemon is ready", r.ready)
	before := inode()
	r.Wait()
	r.restart()
	more := daemon("GPU-a", "GPU-b")
	r.Apply(t.Context(), []mps.Daemon{more})
	r.eventually("the daemon of the next process is ready", r.ready)
	if got := inode(); got != before {
		t.Errorf("the folder of the pipe is file system %d, and was %d", got, before)
	}
	if got, want := fill(t, filepath.Join(r.root, shared, "shm")), more.Clients*64; got > want || got < want-2 {
		t.Errorf("the shared memory of %d clients takes %d MiB, want %d", more.Clients, got, want)
	}
}
