package archive

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// suffix is the end of the name of an archive in one file. Any other name is a folder.
const suffix = ".tar.gz"

// sink takes the files of an archive. The archive has its name only after commit.
type sink interface {
	// add adds a file. Its content is in parts, so that a long list need not be copied.
	add(name string, content ...[]byte) error
	// size returns the size of the archive until now.
	size() int64
	commit() error
	// abort removes everything.
	abort()
}

// newSink returns the sink for a destination, which must not exist. An empty folder may exist.
func newSink(dest string, at time.Time) (sink, error) {
	dest = filepath.Clean(dest)
	entries, err := os.ReadDir(dest)
	switch {
	case err == nil && len(entries) == 0 && !strings.HasSuffix(dest, suffix), errors.Is(err, fs.ErrNotExist):
	case err == nil:
		return nil, fmt.Errorf("write %s: the folder exists and is not empty: choose another name with --dest", dest)
	default:
		if _, err := os.Lstat(dest); err == nil {
			return nil, fmt.Errorf("write %s: the file exists: choose another name with --dest", dest)
		}
		return nil, fmt.Errorf("write %s: %w", dest, err)
	}
	// A name with "partial" remains only if the process is killed.
	pattern := filepath.Base(dest) + ".partial-*"
	if !strings.HasSuffix(dest, suffix) {
		temporary, err := os.MkdirTemp(filepath.Dir(dest), pattern)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", dest, err)
		}
		return &folder{dest: dest, temporary: temporary}, nil
	}
	file, err := os.CreateTemp(filepath.Dir(dest), pattern)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", dest, err)
	}
	t := &tarball{dest: dest, file: file, at: at, top: strings.TrimSuffix(filepath.Base(dest), suffix)}
	t.gzip = gzip.NewWriter(&t.count)
	t.count.to = file
	t.tar = tar.NewWriter(t.gzip)
	return t, nil
}

// folder is an archive as a folder.
type folder struct {
	dest, temporary string
	bytes           int64
}

func (f *folder) add(name string, content ...[]byte) error {
	file := filepath.Join(f.temporary, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for _, part := range content {
		n, err := out.Write(part)
		f.bytes += int64(n)
		if err != nil {
			return errors.Join(err, out.Close())
		}
	}
	return out.Close()
}

func (f *folder) size() int64 { return f.bytes }

func (f *folder) commit() error { return os.Rename(f.temporary, f.dest) }

func (f *folder) abort() { _ = os.RemoveAll(f.temporary) }

// tarball is an archive as a compressed file.
type tarball struct {
	dest, top string
	at        time.Time
	file      *os.File
	count     counter
	gzip      *gzip.Writer
	tar       *tar.Writer
}

// counter counts the bytes that it passes on.
type counter struct {
	to    io.Writer
	bytes int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.bytes += int64(n)
	return n, err
}

func (t *tarball) add(name string, content ...[]byte) error {
	head := &tar.Header{Name: t.top + "/" + name, Mode: 0o600, Size: int64(length(content)), ModTime: t.at, Format: tar.FormatPAX}
	if err := t.tar.WriteHeader(head); err != nil {
		return err
	}
	for _, part := range content {
		if _, err := t.tar.Write(part); err != nil {
			return err
		}
	}
	// After a flush, size counts all of the content.
	return errors.Join(t.tar.Flush(), t.gzip.Flush())
}

func (t *tarball) size() int64 { return t.count.bytes }

func (t *tarball) commit() error {
	if err := errors.Join(t.tar.Close(), t.gzip.Close(), t.file.Sync(), t.file.Close()); err != nil {
		return err
	}
	return os.Rename(t.file.Name(), t.dest)
}

func (t *tarball) abort() {
	_ = t.file.Close()
	_ = os.Remove(t.file.Name())
}

// length returns the length of all parts.
func length(parts [][]byte) (sum int) {
	for _, p := range parts {
		sum += len(p)
	}
	return sum
}
