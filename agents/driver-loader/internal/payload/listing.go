package payload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"outrigger.dev/pkg/pace"
)

// file is a file or link of a payload. The digest of a payload is the digest of its list of files.
type file struct {
	path string
	// size, mode and sum are set for files.
	size int64
	mode fs.FileMode
	sum  string
	// target is set for links.
	target string
}

// String returns the line of the file in the list.
func (f file) String() string {
	if f.target != "" {
		return fmt.Sprintf("link %q %q", f.path, f.target)
	}
	return fmt.Sprintf("file %q %o %d %s", f.path, f.mode, f.size, f.sum)
}

func parseFile(line string) (file, error) {
	var f file
	var err error
	if strings.HasPrefix(line, "link ") {
		_, err = fmt.Sscanf(line, "link %q %q", &f.path, &f.target)
	} else {
		_, err = fmt.Sscanf(line, "file %q %o %d %s", &f.path, &f.mode, &f.size, &f.sum)
	}
	if err != nil || !filepath.IsLocal(f.path) {
		return file{}, fmt.Errorf("the list of files has the line %q", line)
	}
	return f, nil
}

// stat returns an error unless the file matches the list. It does not read the content.
func (f file) stat(dir string) error {
	path := filepath.Join(dir, f.path)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("is missing")
	case err != nil:
		return err
	case f.target != "":
		if target, err := os.Readlink(path); err != nil || target != f.target {
			return fmt.Errorf("is not a link to %s", f.target)
		}
		return nil
	case !info.Mode().IsRegular() || info.Size() != f.size || info.Mode().Perm() != f.mode:
		return errors.New("was changed")
	}
	return nil
}

func sumFile(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, pace.Reader(ctx, f)); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// list returns the files below a folder, ordered by path.
func list(ctx context.Context, dir string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		f := file{path: strings.TrimPrefix(path, dir+"/")}
		if e.Type() == fs.ModeSymlink {
			f.target, err = os.Readlink(path)
		} else {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				f.size, f.mode = info.Size(), info.Mode().Perm()
				f.sum, err = sumFile(ctx, path)
			}
		}
		files = append(files, f)
		return err
	})
	return files, err
}

// lines returns the list in the format of the store.
func lines(files []file) []byte {
	var text strings.Builder
	for _, f := range files {
		text.WriteString(f.String() + "\n")
	}
	return []byte(text.String())
}
