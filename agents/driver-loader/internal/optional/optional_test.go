package optional_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/optional"
	"outrigger.dev/pkg/cause"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestSourcesOfImagesAreImported(t *testing.T) {
	image, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	if got, err := optional.Import(t.Context(), store, image); len(got) > 0 || err != nil {
		t.Errorf("an image without sources: %v, %v", got, err)
	}
	fs := filepath.Join(image, "usr/src/nvidia-fs-2.27.3")
	write(t, filepath.Join(fs, "Makefile"), "all:\n")
	write(t, filepath.Join(fs, "nvfs-core.c"), "1")
	write(t, filepath.Join(image, "usr/src/gdrdrv-2.5/README"), "no Makefile")
	got, err := optional.Import(t.Context(), store, image)
	assert.NilError(t, err)
	if len(got) != 1 || got[0].Module != "nvidia_fs" || got[0].Version != "2.27.3" {
		t.Fatalf("%+v", got)
	}
	if data, err := os.ReadFile(filepath.Join(got[0].Dir, "nvfs-core.c")); err != nil || string(data) != "1" {
		t.Errorf("%q, %v", data, err)
	}
	again, err := optional.Import(t.Context(), store, image)
	if err != nil || again[0] != got[0] {
		t.Errorf("the same sources: %+v, %v", again, err)
	}
	if list := optional.List(store); len(list) != 1 || list["nvidia_fs"] != got[0] {
		t.Errorf("%+v, want %+v", list, got[0])
	}
	// Other sources replace them. A folder with sources can be imported itself.
	write(t, filepath.Join(fs, "nvfs-core.c"), "2")
	write(t, filepath.Join(image, "usr/src/gdrdrv-2.5/Makefile"), "all:\n")
	newer, err := optional.Import(t.Context(), store, fs)
	if err != nil || len(newer) != 1 || newer[0].Digest == got[0].Digest {
		t.Errorf("%+v, %v", newer, err)
	}
	if _, err := os.Stat(got[0].Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old sources are still there: %v", err)
	}
	if both, err := optional.Import(t.Context(), store, image); err != nil || len(both) != 2 || len(optional.List(store)) != 2 {
		t.Errorf("%+v, %v", both, err)
	}
}

func TestASourceThatIsTooLargeIsRejected(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gdrdrv-1")
	write(t, filepath.Join(dir, "Makefile"), "")
	f, err := os.Create(filepath.Join(dir, "large")) //nolint:forbidigo // it has no content
	assert.NilError(t, err)
	assert.NilError(t, f.Truncate(1<<30))
	assert.NilError(t, f.Close())
	if got, err := optional.Import(t.Context(), t.TempDir(), dir); !cause.Is(err, cause.PayloadRejected) {
		t.Errorf("%+v, %v", got, err)
	}
}
