package apply

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestLoadRemovesLeftovers(t *testing.T) {
	for name, journal := range map[string]string{"without a journal": "", "with a journal": `{"version": 1, "gpus": []}`} {
		t.Run(name, func(t *testing.T) {
			s := store(t.TempDir())
			left := filepath.Join(string(s), ".journal.json.tmp-1")
			assert.NilError(t, os.WriteFile(left, []byte("{"), 0o600))
			if err := os.Chtimes(left, time.Time{}, time.Now().Add(-time.Hour)); err != nil { // an old one: a young one may be in use
				t.Fatal(err)
			}
			if journal != "" {
				assert.NilError(t, os.WriteFile(s.path(), []byte(journal), 0o600))
			}
			if _, err := s.load(); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s stays: %v", left, err)
			}
		})
	}
}

func TestAResetWithoutStepsIsNoChangeOfTheLayout(t *testing.T) {
	for name, tc := range map[string]struct {
		steps int
		want  string
	}{
		"no steps": {0, "its mig layout is unchanged"},
		"steps":    {2, "changed the mig layout of a gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			tr := &transaction{Applier: &Applier{cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}}
			tr.recordOutcome(&member{fabric: true, steps: tc.steps}, Applied)
			if !strings.Contains(log.String(), tc.want) || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("the log is %q, want %q", log.String(), tc.want)
			}
		})
	}
}
