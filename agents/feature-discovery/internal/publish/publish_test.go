package publish_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/feature-discovery/internal/publish"
)

func stamped(seconds int64) publish.Stamper {
	return publish.Stamper{Key: publish.Timestamp, Now: func() time.Time { return time.Unix(seconds, 0) }}
}

func TestTheFileIsWrittenOnlyWhenItChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gfd")
	put := func(now int64, labels map[string]string) string {
		t.Helper()
		f := publish.File{Stamper: stamped(now), Path: path}
		assert.NilError(t, f.Put(t.Context(), labels))
		data, err := os.ReadFile(path)
		assert.NilError(t, err)
		return string(data)
	}
	first := put(1, map[string]string{"nvidia.com/gpu.count": "8", "a": "b"})
	if want := "a=b\nnvidia.com/gfd.timestamp=1\nnvidia.com/gpu.count=8\n"; first != want {
		t.Errorf("file %q, want %q", first, want)
	}
	before, err := os.Stat(path)
	assert.NilError(t, err)
	if again := put(2, map[string]string{"nvidia.com/gpu.count": "8", "a": "b"}); again != first {
		t.Errorf("the same labels again give %q, want what was there", again)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("a file that is right was written again: %v", err)
	}
	if other := put(3, map[string]string{"a": "b"}); other != "a=b\nnvidia.com/gfd.timestamp=3\n" {
		t.Errorf("other labels give %q", other)
	}
	if none := put(4, map[string]string{}); none != "" {
		t.Errorf("no labels give %q, want an empty file", none)
	}
}

func TestTheFilesFolderIsMissing(t *testing.T) {
	f := publish.File{Path: filepath.Join(t.TempDir(), "none", "gfd")}
	assert.ErrorContains(t, f.Put(t.Context(), map[string]string{"a": "b"}), "is the folder of Node Feature Discovery mounted?")
}

func TestTextPrintsEachSetOnce(t *testing.T) {
	var out bytes.Buffer
	p := &publish.Text{To: &out}
	for _, value := range []string{"1", "1", "2"} {
		assert.NilError(t, p.Put(t.Context(), map[string]string{"a": value}))
	}
	if out.String() != "a=1\na=2\n" {
		t.Errorf("printed %q", out.String())
	}
}
