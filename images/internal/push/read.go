package push

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Annotations of the OCI image specification and of containerd.
const (
	refName   = "org.opencontainers.image.ref.name"
	title     = "org.opencontainers.image.title"
	version   = "org.opencontainers.image.version"
	imageName = "io.containerd.image.name"
)

// item is an image, an index of images, or a chart.
type item struct {
	repository, tag string
	content         content
}

type content interface {
	remote.Taggable
	Digest() (v1.Hash, error)
}

// read calls push for the contents of a folder. If the folder is a layout of charts, the contents
// are the charts. Otherwise they are the images: the layouts in the folder, one for each component,
// or, without layouts, the archives.
func read(folder string, push func(item) error) error {
	if isLayout(folder) {
		return readLayout(folder, chartItem, push)
	}
	for _, kind := range []struct {
		pattern string
		read    func(file string, push func(item) error) error
	}{
		{"*/oci-layout", func(file string, push func(item) error) error { return readComponent(filepath.Dir(file), push) }},
		{"*.tar", readArchive},
	} {
		files, err := filepath.Glob(filepath.Join(folder, kind.pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := kind.read(file, push); err != nil {
				return err
			}
		}
		if len(files) > 0 {
			return nil
		}
	}
	return errors.New("the folder has no images and no charts: run make images, make charts or make release first")
}

func isLayout(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "oci-layout"))
	return err == nil
}

// readComponent reads a layout of "images release": the images of a component under all tags.
func readComponent(folder string, push func(item) error) error {
	return readLayout(folder, func(d v1.Descriptor, _ v1.ImageIndex) (string, string, error) {
		return filepath.Base(folder), d.Annotations[refName], nil
	}, push)
}

// readArchive reads an archive of "images build".
func readArchive(file string, push func(item) error) error {
	dir, err := os.MkdirTemp("", "outrigger-push-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := unpack(file, dir); err != nil {
		return fmt.Errorf("unpack %s: %w", file, err)
	}
	if err := readLayout(dir, archiveItem, push); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return nil
}

// archiveItem returns the name and the tag of an image in an archive of "images build".
func archiveItem(d v1.Descriptor, _ v1.ImageIndex) (repository, tag string, err error) {
	repository, tag, ok := strings.Cut(path.Base(d.Annotations[imageName]), ":")
	if !ok {
		return "", "", errors.New("the archive does not name its image: write it again with make images")
	}
	return repository, tag, nil
}

// chartItem returns the name and the tag of a chart in a layout of "images charts".
func chartItem(d v1.Descriptor, of v1.ImageIndex) (repository, tag string, err error) {
	chart, err := of.Image(d.Digest)
	if err != nil {
		return "", "", err
	}
	manifest, err := chart.Manifest()
	if err != nil {
		return "", "", err
	}
	return "charts/" + manifest.Annotations[title], manifest.Annotations[version], nil
}

// readLayout calls push for each entry of an OCI layout, with the name and the tag that the
// function named returns.
func readLayout(folder string, named func(v1.Descriptor, v1.ImageIndex) (repository, tag string, err error), push func(item) error) error {
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return err
	}
	all, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range all.Manifests {
		var i item
		if i.repository, i.tag, err = named(d, index); err != nil {
			return err
		}
		if d.MediaType.IsIndex() {
			i.content, err = index.ImageIndex(d.Digest)
		} else {
			i.content, err = index.Image(d.Digest)
		}
		if err != nil {
			return err
		}
		if err := push(i); err != nil {
			return err
		}
	}
	return nil
}

// unpack writes the files of an archive into dir.
func unpack(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // the folder was only read
	for files := tar.NewReader(f); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := writeFile(root, header.Name, files); err != nil {
			return err
		}
	}
}

// writeFile writes a file with its folders.
func writeFile(root *os.Root, file string, content io.Reader) error {
	if err := root.MkdirAll(path.Dir(file), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := root.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
