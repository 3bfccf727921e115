// Package image builds the images of a test cluster from files of the machine, and
// writes them as OCI archives.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nameAnnotation is the annotation with the name of an archived image, for containerd.
const nameAnnotation = "io.containerd.image.name"

// Image is an image with one program, or with the files of a folder.
type Image struct {
	// Name is the full name with the tag.
	Name string
	// Root is a folder of the machine with all files of the image, instead of a program.
	Root string
	// Program is the file on the machine, a static binary.
	Program string
	// Path is the path of the program in the image.
	Path string
	// Links are names of symbolic links to the program, in its folder.
	Links []string
	// Entrypoint is set if the image runs without a command.
	Entrypoint []string
}

// WriteArchive writes the image as an OCI archive.
func (i Image) WriteArchive(w io.Writer) error {
	img, err := i.build()
	if err != nil {
		return fmt.Errorf("build image %s: %w", i.Name, err)
	}
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return fmt.Errorf("create folder of image %s: %w", i.Name, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write image %s: %w", i.Name, err)
	}
	if err := l.AppendImage(img, layout.WithAnnotations(map[string]string{nameAnnotation: i.Name})); err != nil {
		return fmt.Errorf("write image %s: %w", i.Name, err)
	}
	tw := tar.NewWriter(w)
	if err := tw.AddFS(os.DirFS(dir)); err != nil {
		return fmt.Errorf("archive image %s: %w", i.Name, err)
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("archive image %s: %w", i.Name, err)
	}
	return nil
}

// ArchiveName returns the name of the only image of an OCI archive.
func ArchiveName(archive io.Reader) (string, error) {
	for tr := tar.NewReader(archive); ; {
		h, err := tr.Next()
		if err != nil {
			return "", fmt.Errorf("find index.json in the archive: %w", err)
		}
		if path.Clean(h.Name) != "index.json" {
			continue
		}
		index, err := v1.ParseIndexManifest(tr)
		if err != nil {
			return "", fmt.Errorf("read index.json of the archive: %w", err)
		}
		if len(index.Manifests) != 1 || index.Manifests[0].Annotations[nameAnnotation] == "" {
			return "", errors.New("read index.json of the archive: it does not list exactly one image with a name")
		}
		return index.Manifests[0].Annotations[nameAnnotation], nil
	}
}

// build builds the image in memory.
func (i Image) build() (v1.Image, error) {
	content, err := i.layer()
	if err != nil {
		return nil, err
	}
	// The nodes are on this machine, so compression would take time and save none.
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.NoCompression))
	if err != nil {
		return nil, fmt.Errorf("create layer: %w", err)
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.AppendLayers(img, layer)
	if err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{Entrypoint: i.Entrypoint, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}
	return mutate.ConfigFile(img, file)
}

// layer returns the tar file of the image's only layer.
func (i Image) layer() ([]byte, error) {
	if i.Root != "" {
		return layerOf(i.Root)
	}
	program, err := os.ReadFile(i.Program)
	if err != nil {
		return nil, fmt.Errorf("read program: %w", err)
	}
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	headers := []*tar.Header{{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}}
	dir := strings.TrimPrefix(path.Dir(i.Path), "/")
	if dir != "" {
		headers = append(headers, &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755})
	}
	for _, link := range i.Links {
		headers = append(headers, &tar.Header{Typeflag: tar.TypeSymlink, Name: path.Join(dir, link), Linkname: path.Base(i.Path), Mode: 0o777})
	}
	headers = append(headers, &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(i.Path, "/"), Mode: 0o755, Size: int64(len(program))})
	for _, h := range headers {
		if err := tw.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("add %s: %w", h.Name, err)
		}
	}
	if _, err := tw.Write(program); err != nil {
		return nil, fmt.Errorf("add %s: %w", i.Path, err)
	}
	if err := tw.Close(); err != nil {
		return nil, fmt.Errorf("finish layer: %w", err)
	}
	return b.Bytes(), nil
}

// layerOf returns the tar file of a layer with the files of a folder.
func layerOf(root string) ([]byte, error) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	if err := tw.AddFS(os.DirFS(root)); err != nil {
		return nil, fmt.Errorf("add the files of %s: %w", root, err)
	}
	if err := tw.Close(); err != nil {
		return nil, fmt.Errorf("finish layer: %w", err)
	}
	return b.Bytes(), nil
}
