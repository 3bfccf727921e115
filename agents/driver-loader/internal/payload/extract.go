package payload

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"outrigger.dev/agents/driver-loader/internal/staging"
	"outrigger.dev/pkg/cause"
)

// Limits of a payload. NVIDIA's payloads have 1.4 GB in 1,000 files, or 10,000 files with the source tree.
const (
	maxFiles    = 100_000
	maxPath     = 1024
	maxName     = 255
	defaultSize = 16 << 30
)

// writer writes untrusted files into a folder, and not outside of it.
type writer struct {
	root  *os.Root
	name  string // the imported path, for errors
	most  int64  // the largest number of bytes to write
	left  int64  // the remaining number of bytes
	files int
}

func newWriter(dir, name string, most int64) (*writer, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &writer{root: root, name: name, most: most, left: most}, nil
}

func (w *writer) Close() error { return w.root.Close() }

// extract writes an entry of an archive.
func (w *writer) extract(h *tar.Header, content io.Reader) error {
	name, err := w.local(h.Name)
	if err != nil || name == "." {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return w.explain(w.root.MkdirAll(name, 0o755))
	case tar.TypeReg:
		return w.file(name, content, h.FileInfo().Mode())
	case tar.TypeSymlink:
		return w.link(name, h.Linkname)
	case tar.TypeLink:
		target, err := w.local(h.Linkname)
		if err != nil {
			return err
		}
		return w.hardLink(target, name)
	case tar.TypeXGlobalHeader:
		return nil
	}
	return problem(cause.PayloadRejected, w.name, fetchAgain, "has a device or another special file: %q", h.Name)
}

// local checks a path from an archive, and returns it as a local path.
func (w *writer) local(name string) (string, error) {
	clean := path.Clean(name)
	if len(clean) > maxPath || slices.ContainsFunc(strings.Split(clean, "/"), func(element string) bool { return len(element) > maxName }) {
		return "", problem(cause.PayloadRejected, w.name, fetchAgain, "has a file whose name has more than %d characters, or whose path has more than %d: %.64q...", maxName, maxPath, clean)
	}
	if !filepath.IsLocal(clean) || strings.ContainsFunc(clean, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", problem(cause.PayloadRejected, w.name, fetchAgain, "has a file outside of its folder: %q", name)
	}
	if w.files++; w.files > maxFiles {
		return "", problem(cause.PayloadRejected, w.name, fetchAgain, "has more than %d files", maxFiles)
	}
	return clean, nil
}

// file writes a file. Executable files stay executable. No file gets the set-user-ID bit.
func (w *writer) file(name string, content io.Reader, mode fs.FileMode) error {
	if err := w.vacate(name); err != nil {
		return err
	}
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return w.explain(err)
	}
	n, err := io.Copy(f, io.LimitReader(content, w.left+1))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return w.explain(err)
	}
	if w.left -= n; w.left < 0 {
		return problem(cause.PayloadRejected, w.name, fetchAgain, "has more than %d MiB of content, which is too much for a driver", w.most>>20)
	}
	return w.explain(w.root.Chmod(name, plain(mode)))
}

// plain returns the mode of a file in the store: readable by all users, and executable or not.
func plain(mode fs.FileMode) fs.FileMode {
	if mode&0o111 != 0 {
		return 0o755
	}
	return 0o644
}

// link writes a symbolic link. It does not check the target, because all readers resolve links within
// the root.
func (w *writer) link(name, target string) error {
	if target == "" || len(target) > maxPath {
		return problem(cause.PayloadRejected, w.name, fetchAgain, "has the link %q without a target", name)
	}
	if err := w.vacate(name); err != nil {
		return err
	}
	return w.explain(w.root.Symlink(target, name))
}

// hardLink adds a second name for a file.
func (w *writer) hardLink(from, name string) error {
	if err := w.vacate(name); err != nil {
		return err
	}
	return w.explain(w.root.Link(from, name))
}

// vacate makes the folders above a name, and removes a file or link that has the name. A link from the archive is
// replaced, not followed.
func (w *writer) vacate(name string) error {
	if err := w.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return w.explain(err)
	}
	if err := w.root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return w.explain(err)
	}
	return nil
}

// explain returns the Cause of a write error. A full disk is an error of the node.
func (w *writer) explain(err error) error {
	if err = w.blamed(err); err == nil || isCause(err) {
		return err
	}
	return staging.Explain(w.root.Name(), err)
}

// blamed returns the Cause of an error that results from the content of the imported driver, such as a path that leaves
// its folder through a link. It returns other errors unchanged.
func (w *writer) blamed(err error) error {
	switch {
	case err == nil || isCause(err):
		return err
	case strings.Contains(err.Error(), "path escapes from parent"):
		return problem(cause.PayloadRejected, w.name, fetchAgain, "has a file behind a link that leads out of its folder: %v", err)
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENOTDIR):
		return problem(cause.PayloadRejected, w.name, fetchAgain, "has a path that cannot be written: %v", err)
	}
	return err
}

// isCause reports whether an error is a bare Cause.
func isCause(err error) bool {
	_, is := err.(cause.Cause) //nolint:errorlint // only a bare Cause is passed on
	return is
}
