package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/orchestrator/internal/archive"
)

// pack returns the path of a .tar.gz with entries.
func pack(t *testing.T, entries ...tar.Header) string {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	to := tar.NewWriter(packed)
	for _, head := range entries {
		content := []byte("format: 1\n")
		if head.Size == 0 && head.Typeflag == tar.TypeReg {
			head.Size = int64(len(content))
		}
		assert.NilError(t, to.WriteHeader(&head))
		if head.Typeflag == tar.TypeReg && head.Size == int64(len(content)) {
			_, err := to.Write(content)
			assert.NilError(t, err)
		}
	}
	_ = to.Close()
	assert.NilError(t, packed.Close())
	file := filepath.Join(t.TempDir(), "hostile.tar.gz")
	assert.NilError(t, os.WriteFile(file, out.Bytes(), 0o600))
	return file
}

func TestHostileArchives(t *testing.T) {
	index := tar.Header{Name: "a/index.yaml", Typeflag: tar.TypeReg}
	for name, c := range map[string]struct {
		file   string
		unseen string
		err    string
	}{
		"a path out of it": {file: pack(t, index, tar.Header{Name: "../../etc/nodes.yaml", Typeflag: tar.TypeReg}), unseen: "its path leads out"},
		"an absolute path": {file: pack(t, index, tar.Header{Name: "/etc/nodes.yaml", Typeflag: tar.TypeReg}), unseen: "its path leads out"},
		"a link":           {file: pack(t, index, tar.Header{Name: "a/nodes.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), unseen: "links are not followed"},
		"a device":         {file: pack(t, index, tar.Header{Name: "a/nodes.yaml", Typeflag: tar.TypeChar}), unseen: "not a regular file"},
		"a huge file":      {file: pack(t, index, tar.Header{Name: "a/nodes.yaml", Typeflag: tar.TypeReg, Size: 1 << 40}), err: "ends too early"},
		"no archive":       {file: pack(t, tar.Header{Name: "a/other.yaml", Typeflag: tar.TypeReg}), err: "no index.yaml"},
		"no gzip":          {file: "archive_test.go", err: "not a .tar.gz"},
		"nothing":          {file: "testdata/missing", err: "no such file"},
		"a device file":    {file: "/dev/zero", err: "neither a folder nor a file"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := archive.Read(c.file)
			if c.err != "" {
				assert.ErrorContains(t, err, c.err)
				return
			}
			assert.NilError(t, err)
			if got := asJSON(t, f.Unseen); !strings.Contains(got, c.unseen) || len(f.Nodes) > 0 {
				t.Errorf("unseen: %s, want %q", got, c.unseen)
			}
		})
	}
}

func TestLinksInAFolderAreNotFollowed(t *testing.T) {
	dest := destinations(t)[0]
	write(t, dest, archive.MaxSize, secretive(), nil)
	outside := filepath.Join(t.TempDir(), "nodes.yaml")
	assert.NilError(t, os.Rename(filepath.Join(dest, "nodes.yaml"), outside))
	assert.NilError(t, os.Symlink(outside, filepath.Join(dest, "nodes.yaml")))
	assert.NilError(t, os.WriteFile(filepath.Join(dest, "pods.yaml"), []byte("items:\n- kind: Pod\n  spec: [\n"), 0o600))
	f, err := archive.Read(dest)
	assert.NilError(t, err)
	got := asJSON(t, f.Unseen)
	if len(f.Nodes) > 0 || !strings.Contains(got, "links are not followed") || !strings.Contains(got, "it is damaged") || len(f.DaemonSets) != 1 {
		t.Errorf("read %d nodes; unseen: %s", len(f.Nodes), got)
	}
}
