package publish_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/feature-discovery/internal/publish"
	"outrigger.dev/pkg/agent/agenttest"
)

// TestTheFileHeals: the file is there again, long before the next check.
func TestTheFileHeals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gfd")
	k := publish.NewKeeper(publish.KeeperConfig{Output: publish.File{Path: path}, Every: time.Hour, Log: discard()})
	agenttest.Run(t, k.Run)
	k.Set(one)
	for i, damage := range []func() error{
		func() error { return nil },
		func() error { return os.Remove(path) },
		func() error { return os.Truncate(path, 0) },
		func() error { return os.WriteFile(path, []byte("a=b\n"), 0o600) },
		func() error {
			return errors.Join(os.RemoveAll(filepath.Dir(path)), os.Mkdir(filepath.Dir(path), 0o755))
		},
	} {
		assert.NilError(t, damage())
		limit := time.After(5 * time.Minute)
		for data := []byte(nil); string(data) != "a=1\n"; data, _ = os.ReadFile(path) {
			select {
			case <-limit:
				t.Fatalf("damage %d: the file has %q", i, data)
			case <-time.After(time.Millisecond):
			}
		}
	}
}

// TestOnlyAFileIsWritten: a device at the path is neither replaced nor written to.
func TestOnlyAFileIsWritten(t *testing.T) {
	err := publish.File{Path: "/dev/full"}.Put(t.Context(), one)
	assert.ErrorContains(t, err, "/dev/full: it is a device, not a regular file")
	if info, err := os.Lstat("/dev/full"); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Fatalf("/dev/full is no device any more: %v", err)
	}
}
