package loader_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/loader/loadertest"
	"outrigger.dev/pkg/cause"
)

// TestAStoreThatCannotBeWrittenHasItsCause finds a full or read-only store before modules are loaded.
func TestAStoreThatCannotBeWrittenHasItsCause(t *testing.T) {
	for code, spoil := range map[cause.Code]func(store string) error{
		cause.NoSpace: func(store string) error {
			f, err := os.Create(filepath.Join(store, "filler")) //nolint:forbidigo // it fills the disk
			for err == nil {
				_, err = f.Write(make([]byte, 4096))
			}
			if errors.Is(err, unix.ENOSPC) {
				err = nil
			}
			return errors.Join(err, f.Close())
		},
		cause.FolderReadOnly: func(store string) error {
			return unix.Mount("", store, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
		},
	} {
		t.Run(string(code), func(t *testing.T) {
			n := loadertest.New(t)
			store := filepath.Join(n.Dir, "store")
			assert.NilError(t, os.Mkdir(store, 0o700))
			assert.NilError(t, unix.Mount("tmpfs", store, "tmpfs", 0, "size=8m"))
			t.Cleanup(func() { assert.NilError(t, unix.Unmount(store, unix.MNT_DETACH)) })
			n.Stock(t, one)
			n.At = func(what string) {
				if strings.HasPrefix(what, "load ") {
					t.Errorf("%s, although the store cannot be written", what)
				}
			}
			l := loader.New(n.Config("", slog.New(slog.DiscardHandler)), loadertest.Machine)
			assert.NilError(t, spoil(store))
			step := l.Settle(t.Context())
			if step.Kind != loader.Wait || len(step.Causes) != 1 || step.Causes[0].Code != code || step.Causes[0].Fix != code.Row().Fix {
				t.Errorf("%s %+v", step, step.Causes)
			}
			if n.Loaded() != "" {
				t.Errorf("driver %s is loaded", n.Loaded())
			}
		})
	}
}
