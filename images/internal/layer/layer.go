// Package layer packs files into image layers. The bytes of a layer depend only on the names, modes
// and content of the files, and on the time of the Source.
package layer

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Source describes the files of one COPY.
type Source struct {
	// Path is a file, or a folder whose content is packed.
	Path string
	// To is the absolute path of the file or folder in the image.
	To string
	// Time is the modification time of every entry.
	Time time.Time
}

// New returns the layer of s. All its files belong to root.
func New(s Source) (v1.Layer, error) {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	info, err := os.Stat(s.Path)
	if err != nil {
		return nil, fmt.Errorf("pack layer: %w", err)
	}
	p := packer{Source: s, w: w, seen: map[string]bool{}}
	if info.IsDir() {
		err = p.folder()
	} else {
		err = p.file(s.Path, s.To, info)
	}
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", s.Path, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack %s: %w", s.Path, err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithCompressedCaching, tarball.WithMediaType(types.OCILayer))
}

// packer writes entries and their parent folders.
type packer struct {
	Source
	w    *tar.Writer
	seen map[string]bool
}

// folder packs the tree below Path, sorted by name.
func (p packer) folder() error {
	return filepath.WalkDir(p.Path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == p.Path {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		below, err := filepath.Rel(p.Path, name)
		if err != nil {
			return err
		}
		return p.file(name, path.Join(p.To, filepath.ToSlash(below)), info)
	})
}

// file packs one file, folder or symbolic link at the path to.
func (p packer) file(name, to string, info fs.FileInfo) error {
	if err := p.parents(to); err != nil {
		return err
	}
	header := &tar.Header{Name: inArchive(to), Mode: mode(info)}
	switch {
	case info.IsDir():
		return p.dir(to, header.Mode)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(name)
		if err != nil {
			return err
		}
		header.Typeflag, header.Linkname = tar.TypeSymlink, target
		return p.header(header)
	case info.Mode().IsRegular():
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
		if err := p.header(header); err != nil {
			return err
		}
		_, err = p.w.Write(content)
		return err
	default:
		return fmt.Errorf("%s is not a file, folder or symbolic link", name)
	}
}

// parents packs the missing parent folders of the path to.
func (p packer) parents(to string) error {
	var missing []string
	for dir := path.Dir(to); dir != "/" && dir != "." && !p.seen[dir]; dir = path.Dir(dir) {
		missing = append(missing, dir)
	}
	for _, dir := range slices.Backward(missing) {
		if err := p.dir(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (p packer) dir(to string, mode int64) error {
	p.seen[to] = true
	return p.header(&tar.Header{Typeflag: tar.TypeDir, Name: inArchive(to) + "/", Mode: mode})
}

func (p packer) header(h *tar.Header) error {
	h.ModTime = p.Time
	h.Format = tar.FormatPAX
	return p.w.WriteHeader(h)
}

// mode returns a mode that does not depend on the umask of the file's creator.
func mode(info fs.FileInfo) int64 {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return 0o777
	case info.IsDir() && info.Mode()&fs.ModeSticky != 0:
		return 0o1777
	case info.IsDir() || info.Mode()&0o100 != 0:
		return 0o755
	default:
		return 0o644
	}
}

func inArchive(to string) string {
	return strings.TrimPrefix(to, "/")
}
