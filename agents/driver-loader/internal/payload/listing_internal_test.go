package payload

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
)

// TestDigestsOfWhatWasWritten writes files over each other, also through links, and compares the
// digests that were noted with those of the files as they are.
func TestDigestsOfWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	w, err := newWriter(dir, "test", 1<<20)
	assert.NilError(t, err)
	write := func(name, content string) error { return w.file(name, strings.NewReader(content), 0o644) }
	assert.NilError(t, errors.Join(
		write("a/x", "first"), write("a/x", "again"), w.link("b", "a"), write("b/y", "through a link"), write("b/x", "other"),
		w.hardLink("a/y", "z"), write("a/empty", ""), write("a/changed", "1234"), w.Close(),
	))
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "a/changed"), []byte("12345"), 0o600))
	read, err := list(t.Context(), dir, nil)
	assert.NilError(t, err)
	noted, err := list(t.Context(), dir, w.sums)
	assert.NilError(t, err)
	if d := cmp.Diff(lines(read), lines(noted)); d != "" || len(noted) != 6 {
		t.Errorf("(-read +noted):\n%s", d)
	}
	for key, s := range w.sums {
		s.hex = "noted"
		w.sums[key] = s
	}
	noted, err = list(t.Context(), dir, w.sums)
	assert.NilError(t, err)
	for _, f := range noted {
		if was := f.sum == "noted"; f.target == "" && was == (f.path == "a/changed") {
			t.Errorf("%s: its content is read: %t", f.path, !was)
		}
	}
}
