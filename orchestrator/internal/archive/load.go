package archive

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"outrigger.dev/orchestrator/internal/facts"
)

// The limits of an archive that is read. It can come from anybody.
const (
	maxEntries = 200_000
	// maxFile is the maximum size of a file that is read, and maxRead the maximum size of all of them.
	maxFile = 128 << 20
	maxRead = 512 << 20
	// maxUnpacked is the maximum size of an unpacked archive, with the files that are not read.
	maxUnpacked = 4 << 30
)

// loaded has the files of an archive that Read uses, by their path.
type loaded struct {
	files  map[string][]byte
	read   int64
	count  int
	unseen []facts.Unseen
}

// load reads the files of a folder or a .tar.gz into memory. It writes nothing, and follows no link.
func load(name string) (*loaded, error) {
	l := &loaded{files: map[string][]byte{}}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case info.IsDir():
		err = l.folder(name)
	case info.Mode().IsRegular():
		err = l.tarball(name)
	default:
		err = errors.New("it is neither a folder nor a file: give the folder or the .tar.gz that must-gather has written")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return l, nil
}

func (l *loaded) folder(name string) error {
	root, err := os.OpenRoot(name)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return l.counted()
		}
		info, err := d.Info() // of the link, if it is one
		if err != nil {
			return err
		}
		return l.entry(file, info, func() (io.ReadCloser, error) { return root.Open(file) })
	})
}

func (l *loaded) tarball(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	packed, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		return fmt.Errorf("it is not a .tar.gz: %w", err)
	}
	bounded := &io.LimitedReader{R: packed, N: maxUnpacked}
	for in := tar.NewReader(bounded); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) && bounded.N > 0 {
			return nil
		}
		if bounded.N <= 0 {
			return fmt.Errorf("it has more than %d GB", maxUnpacked>>30)
		}
		if err != nil {
			return fmt.Errorf("it ends too early or is damaged: %w", err)
		}
		if head.Typeflag == tar.TypeDir {
			err = l.counted()
		} else {
			err = l.entry(path.Clean(head.Name), head.FileInfo(), func() (io.ReadCloser, error) { return io.NopCloser(in), nil })
		}
		if err != nil {
			return err
		}
	}
}

func (l *loaded) counted() error {
	if l.count++; l.count > maxEntries {
		return fmt.Errorf("it has more than %d files", maxEntries)
	}
	return nil
}

// entry reads a file if Read uses it.
func (l *loaded) entry(name string, info fs.FileInfo, open func() (io.ReadCloser, error)) error {
	if err := l.counted(); err != nil {
		return err
	}
	switch {
	case !used(path.Base(name)):
		return nil
	case !fs.ValidPath(name):
		l.skip(name, "its path leads out of the archive")
		return nil
	case !info.Mode().IsRegular():
		l.skip(name, "it is not a regular file, and links are not followed")
		return nil
	case info.Size() > maxFile:
		l.skip(name, fmt.Sprintf("it has more than %d MB", maxFile>>20))
		return nil
	case l.read+info.Size() > maxRead:
		return fmt.Errorf("its files have more than %d MB", maxRead>>20)
	}
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close()
	content, err := io.ReadAll(io.LimitReader(in, info.Size()))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	l.read += int64(len(content))
	l.files[name] = content
	return nil
}

func (l *loaded) skip(name, why string) {
	if len(l.unseen) < maxUnseen {
		l.unseen = append(l.unseen, facts.Unseen{What: "the file " + name, Why: why})
	}
}

// used reports whether Read uses files with a name.
func used(base string) bool {
	return base == indexFile || slices.Contains(ownFiles(), base) || slices.Contains(foreignFiles(), base)
}

// root returns the folder of the file with one of the names that is the least deep, or false. oc adm must-gather puts the files
// below two folders.
func (l *loaded) root(names ...string) (string, bool) {
	best, found := "", false
	for file := range l.files {
		dir := path.Dir(file)
		if slices.Contains(names, path.Base(file)) && (!found || depth(dir) < depth(best) || depth(dir) == depth(best) && dir < best) {
			best, found = dir, true
		}
	}
	return best, found
}

func depth(dir string) int {
	if dir == "." {
		return 0
	}
	return 1 + strings.Count(dir, "/")
}
