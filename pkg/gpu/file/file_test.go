package file_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/file"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/hostfs"
)

func TestSourceKeepsTheLastGoodNode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot.json")
	put := func(data []byte) {
		if err := hostfs.WriteFile(path, data, 0o644); err != nil {
			t.Error(err)
		}
	}
	two, three := encode(t, gputest.Node(gputest.L4, 2)), encode(t, gputest.Node(gputest.L4, 3))
	put(two)
	log := &logWatch{seen: make(chan string, 8)}
	source := file.New(path, slog.New(slog.NewTextHandler(log, nil)))
	events := make(chan gpu.Event, 8)
	done := make(chan error, 1)
	go func() { done <- source.Watch(t.Context(), func(e gpu.Event) { events <- e }) }()
	if e := <-events; e.Kind != gpu.EventTopologyChanged {
		t.Fatalf("first event = %+v", e)
	}
	put([]byte("{"))
	if line := <-log.seen; !strings.Contains(line, path) {
		t.Errorf("log line %q does not name the file", line)
	}
	put(two) // as before: nothing to report
	put(three)
	if e := <-events; e.Kind != gpu.EventTopologyChanged {
		t.Errorf("event = %+v, want %s", e, gpu.EventTopologyChanged)
	}
	assert.NilError(t, source.Close())
	if err := <-done; err == nil || len(events) > 0 {
		t.Errorf("Watch() = %v with %d more events, want an error and none", err, len(events))
	}
}

// logWatch hands on log lines.
type logWatch struct{ seen chan string }

func (l *logWatch) Write(p []byte) (int, error) {
	l.seen <- string(p)
	return len(p), nil
}

func TestSnapshotNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot.json")
	source := file.New(path, slog.New(slog.DiscardHandler))
	if _, err := source.Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Snapshot() of no file = %v", err)
	}
	assert.NilError(t, os.WriteFile(path, []byte(`{"gpus": 3}`), 0o600))
	_, err := source.Snapshot(t.Context())
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "gpus") {
		t.Errorf("Snapshot() of a bad file = %v, want its path and the field", err)
	}
}

// TestOnlyARegularFileIsRead: a named pipe would be waited for forever, and a device may have
// no end.
func TestOnlyARegularFileIsRead(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	assert.NilError(t, unix.Mkfifo(pipe, 0o600))
	for _, path := range []string{pipe, "/dev/zero"} {
		_, err := file.New(path, slog.New(slog.DiscardHandler)).Snapshot(t.Context())
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("Snapshot() of %s = %v, want that it is not a regular file", path, err)
		}
	}
}

func encode(t *testing.T, node *gpu.Node) []byte {
	t.Helper()
	data, err := json.Marshal(node)
	assert.NilError(t, err)
	return data
}
