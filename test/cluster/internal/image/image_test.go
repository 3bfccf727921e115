package image_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"outrigger.dev/test/cluster/internal/image"
)

func TestWriteArchive(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("the program"), 0o600); err != nil {
		t.Fatal(err)
	}
	i := image.Image{Name: "outrigger.dev/test:1", Program: program, Path: "/bin/program", Links: []string{"sh"}, Entrypoint: []string{"/bin/program"}}
	var archive bytes.Buffer
	if err := i.WriteArchive(&archive); err != nil {
		t.Fatal(err)
	}
	if name, err := image.ArchiveName(bytes.NewReader(archive.Bytes())); name != i.Name || err != nil {
		t.Errorf("ArchiveName() = %q, %v, want %q", name, err, i.Name)
	}
	index, err := layout.ImageIndexFromPath(extract(t, &archive))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("manifests: %v, %v, want one", manifest, err)
	}
	entry := manifest.Manifests[0]
	if entry.MediaType != types.OCIManifestSchema1 || entry.Annotations["io.containerd.image.name"] != i.Name {
		t.Errorf("index entry = %+v", entry)
	}
	img, err := index.Image(entry.Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || !cmp.Equal(config.Config.Entrypoint, i.Entrypoint) {
		t.Errorf("config = %+v", config)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("layers: %v, %v, want one", layers, err)
	}
	layer, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = layer.Close() }()
	want := []string{"tmp/ -> ", "bin/ -> ", "bin/sh -> program", "bin/program -> "}
	if diff := cmp.Diff(want, names(t, layer)); diff != "" {
		t.Errorf("files in the layer (-want +got):\n%s", diff)
	}
}

func TestWriteArchiveOfAMissingProgram(t *testing.T) {
	i := image.Image{Name: "outrigger.dev/test:1", Program: filepath.Join(t.TempDir(), "missing"), Path: "/program"}
	if err := i.WriteArchive(io.Discard); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("WriteArchive() = %v", err)
	}
}

func TestArchiveNameNeedsOneNamedImage(t *testing.T) {
	for name, test := range map[string]struct{ index, want string }{
		"no index":       {want: "find index.json in the archive: EOF"},
		"a broken index": {index: "{", want: "read index.json of the archive: unexpected EOF"},
		"no image":       {index: "{}", want: "read index.json of the archive: it does not list exactly one image with a name"},
		"an image without a name": {
			index: `{"manifests": [{"size": 1}]}`,
			want:  "read index.json of the archive: it does not list exactly one image with a name",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var archive bytes.Buffer
			tw := tar.NewWriter(&archive)
			if test.index != "" {
				if err := tw.WriteHeader(&tar.Header{Name: "./index.json", Size: int64(len(test.index))}); err != nil {
					t.Fatal(err)
				}
				if _, err := tw.Write([]byte(test.index)); err != nil {
					t.Fatal(err)
				}
			}
			if err := tw.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := image.ArchiveName(&archive); err == nil || err.Error() != test.want {
				t.Errorf("ArchiveName() = %v, want %s", err, test.want)
			}
		})
	}
}

// names returns the entries of a tar file, with the targets of links.
func names(t *testing.T, r io.Reader) []string {
	t.Helper()
	var all []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h.Name+" -> "+h.Linkname)
	}
}

func extract(t *testing.T, r io.Reader) string {
	t.Helper()
	dir := t.TempDir()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			continue
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
