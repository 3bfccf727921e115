package install_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
)

// errKilled stands for the end of the process.
var errKilled = errors.New("killed")

// TestKilledAtEachStep ends the installation before each change of the disk, in turn.
// Whoever follows the link finds a whole version, or none if there was none; the next
// start finishes the work.
func TestKilledAtEachStep(t *testing.T) {
	for name, prepare := range map[string]func(r *rig) (before map[string]string){
		"first installation": func(*rig) map[string]string { return map[string]string{} },
		"upgrade": func(r *rig) map[string]string {
			r.install("a = 1\n")
			return want("1", "a = 1\n")
		},
		"another program's tools": func(r *rig) map[string]string {
			r.put(filepath.Join(r.dir.Tools(), "nvidia-ctk"), "theirs", 0o755)
			return map[string]string{"nvidia-ctk": "theirs"}
		},
		"a link of another program": func(r *rig) map[string]string {
			r.put(filepath.Join(string(r.dir), "theirs", "nvidia-ctk"), "theirs", 0o755)
			assert.NilError(r, os.Symlink("theirs", r.dir.Tools()))
			return map[string]string{"nvidia-ctk": "theirs"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for step, done := 0, false; !done; step++ {
				r := newRig(t)
				before := prepare(r)
				r.release("2")
				done = r.killedAt(step, before)
				r.install("a = 2\n")
				r.check("2", "a = 2\n")
				r.nothingLeft()
				if strings.HasPrefix(before["nvidia-ctk"], "theirs") {
					r.comesBack(before)
				}
				if step > 100 {
					t.Fatal("the installation never ends")
				}
			}
		})
	}
}

// killedAt installs until before a step, and reports whether there was none.
func (r *rig) killedAt(step int, before map[string]string) (done bool) {
	r.Helper()
	i, n := r.installer("a = 2\n"), 0
	i.SetBefore(func(change string) error {
		if now := r.shows(); !maps.Equal(now, before) && !maps.Equal(now, want("2", "a = 2\n")) {
			r.Errorf("before %q, the link shows %v", change, now)
		}
		if n++; n > step {
			return errKilled
		}
		return nil
	})
	_, err := i.Install()
	if err != nil && !errors.Is(err, errKilled) {
		r.Fatal(err)
	}
	return err == nil
}

// nothingLeft checks that there are only versions, and what was replaced.
func (r *rig) nothingLeft() {
	r.Helper()
	entries, err := os.ReadDir(r.dir.Hidden())
	assert.NilError(r, err)
	for _, e := range entries {
		if len(e.Name()) != 16 && e.Name() != "replaced" && e.Name() != "made" {
			r.Errorf("%s is left", e.Name())
		}
	}
}

// comesBack removes the installation, and checks that there is what was before.
func (r *rig) comesBack(before map[string]string) {
	r.Helper()
	assert.NilError(r, r.installer("").Remove())
	if d := cmp.Diff(before, r.shows()); d != "" {
		r.Errorf("after the removal (-want +got):\n%s", d)
	}
	if _, err := os.Stat(r.dir.Hidden()); !errors.Is(err, fs.ErrNotExist) {
		r.Errorf("%s is left: %v", r.dir.Hidden(), err)
	}
}
