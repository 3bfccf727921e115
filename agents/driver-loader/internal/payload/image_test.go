package payload_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
)

// In a container, the root of the driver's image is "/", in which the host is mounted.
func TestWhatIsMountedInADriverRootIsNotTaken(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this machine has no root for mounts")
	}
	from, err := newStore(t).Import(t.Context(), payloadtest.Driver{Version: version}.Folder(t))
	assert.NilError(t, err)
	root := from.Root
	payloadtest.Write(t, filepath.Join(root, "host/etc/secret"), "of the image", 0o644)
	payloadtest.Write(t, filepath.Join(root, "etc/hosts"), "of the image", 0o644)
	other := t.TempDir()
	payloadtest.Write(t, filepath.Join(other, "etc/secret"), "of the host", 0o644)

	// The thread ends with this goroutine, and its mounts with it.
	runtime.LockOSThread()
	assert.NilError(t, errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")))
	for at, source := range map[string]string{"host": other, "etc/hosts": filepath.Join(other, "etc/secret")} {
		at = filepath.Join(root, at)
		assert.NilError(t, unix.Mount(source, at, "", unix.MS_BIND, ""))
		t.Cleanup(func() {
			if err := unix.Unmount(at, 0); err != nil {
				t.Error(err)
			}
		})
	}
	s := newStore(t)
	p, err := s.Import(t.Context(), root)
	assert.NilError(t, err)
	for _, name := range []string{"host", "etc/hosts"} {
		if _, err := os.Lstat(filepath.Join(p.Root, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the driver root has %s: %v", name, err)
		}
	}
	before := tree(t, s.Dir)
	payloadtest.Write(t, filepath.Join(other, "etc/secret"), "of the host, changed", 0o644)
	if _, err := s.Import(t.Context(), root); err != nil || tree(t, s.Dir) != before {
		t.Errorf("a second import wrote: %v", err)
	}
}

// A chart that goes back to an earlier image means the driver of that.
func TestADriverThatIsImportedAgainIsTheLastOne(t *testing.T) {
	s := newStore(t)
	old := payloadtest.Driver{Version: version}.Folder(t)
	for _, from := range []string{old, payloadtest.Driver{Version: "590.44.01"}.Folder(t), old} {
		if _, err := s.Import(t.Context(), from); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.List()
	if err != nil || len(all) != 2 || all[0].Version != version {
		t.Errorf("%+v %v", all, err)
	}
}

// TestAWrongClockDoesNotOrderImports imports drivers while the clock of the node is years behind or ahead.
func TestAWrongClockDoesNotOrderImports(t *testing.T) {
	for name, year := range map[string]string{"a clock that was ahead": "2040", "a clock that was at 1970": "1970"} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			for _, next := range []string{"570.86.15", version, "590.44.01", version} {
				p, err := s.Import(t.Context(), payloadtest.Driver{Version: next}.Folder(t))
				assert.NilError(t, err)
				record, err := os.ReadFile(p.Dir + "/payload.json")
				assert.NilError(t, err)
				at := regexp.MustCompile(`"imported": "\d+`)
				if !at.Match(record) {
					t.Fatalf("no time in %s", record)
				}
				changed := at.ReplaceAllString(string(record), `"imported": "`+year)
				payloadtest.Write(t, p.Dir+"/payload.json", changed, 0o644)
				if all, err := s.List(); err != nil || all[0].Version != next {
					t.Errorf("after the import of %s: %+v, %v", next, all, err)
				}
				year = map[string]string{"2040": "2026", "1970": "2026", "2026": "1970"}[year]
			}
		})
	}
}
