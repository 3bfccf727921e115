// Package install puts the tools of the container toolkit on the host, and repairs them when
// they are removed or changed.
//
// Each version of the tools has a separate folder, whose name is a hash of the content. One
// symbolic link leads to the current version:
//
//	/usr/local/nvidia/toolkit -> .toolkit/3f9c2a77d1e04b58
//
// A new version is complete before one rename switches the link. A container that starts at
// that moment finds either all tools of the old version or all tools of the new one. The
// config file of the tools is in the same folder, so that a tool never reads the config of
// another version. Everything else on the host refers to the tools through the link.
package install

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"outrigger.dev/pkg/hostfs"
)

// ConfigFile is the config file of the tools, relative to their folder. NVIDIA's installer
// uses the same path, and the tools look for the file next to their own executable.
const ConfigFile = ".config/nvidia-container-runtime/config.toml"

// tools returns the names of the tools. aliases returns additional names of some tools. A tool does
// other work under such a name.
func tools() []string {
	return []string{
		"nvidia-cdi-hook", "nvidia-container-cli", "nvidia-container-runtime", "nvidia-container-runtime-hook", "nvidia-ctk",
	}
}

func aliases() map[string]string {
	return map[string]string{
		"nvidia-container-runtime.cdi":    "nvidia-container-runtime",
		"nvidia-container-runtime.legacy": "nvidia-container-runtime",
		"nvidia-container-toolkit":        "nvidia-container-runtime-hook",
	}
}

// file is a regular file or a link of a version.
type file struct {
	// name is relative to the folder of the version.
	name string
	mode fs.FileMode
	// link is the target of a symbolic link, "" for a regular file.
	link string
	// sum is the SHA-256 of a regular file, and size its size in bytes.
	sum  [sha256.Size]byte
	size int64
	// source is the file to copy. If it is "", data is the content.
	source string
	data   []byte
}

// Content is the content of a version.
type Content struct {
	files []file
	// id is the name of the version. Equal contents have the same id.
	id string
}

// Read hashes the tools in the folder source, and adds their config file.
func Read(source string, config []byte) (Content, error) {
	var c Content
	for _, name := range tools() {
		f := file{name: name, mode: 0o755, source: filepath.Join(source, name)}
		var err error
		if f.sum, f.size, err = sumOf(f.source); err != nil {
			return Content{}, fmt.Errorf("read the tools: %w: set --toolkit-source-root to the folder that contains them", err)
		}
		c.files = append(c.files, f)
	}
	for name, target := range aliases() {
		c.files = append(c.files, file{name: name, mode: fs.ModeSymlink, link: target})
	}
	c.files = append(c.files, file{
		name: ConfigFile, mode: 0o644, sum: sha256.Sum256(config), size: int64(len(config)), data: config,
	})
	slices.SortFunc(c.files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	c.id = identify(c.files)
	return c, nil
}

// identify returns the name of the version with these files.
func identify(files []file) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%q %o %q %x\n", f.name, f.mode, f.link, f.sum)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// isID reports whether a name is the name of a version.
func isID(name string) bool {
	data, err := hex.DecodeString(name)
	return err == nil && len(data) == 8
}

func sumOf(path string) (sum [sha256.Size]byte, size int64, err error) {
	f, err := hostfs.Open(path)
	if err != nil {
		return sum, 0, err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return sum, 0, fmt.Errorf("read %s: %w", path, err)
	}
	return total(h), size, nil
}

func total(h hash.Hash) (sum [sha256.Size]byte) {
	copy(sum[:], h.Sum(nil))
	return sum
}

// open returns the desired content of a regular file.
func (f file) open() (io.ReadCloser, error) {
	if f.source == "" {
		return io.NopCloser(bytes.NewReader(f.data)), nil
	}
	return hostfs.Open(f.source)
}

// intact reports whether the file in dir is as desired. It reads the whole file.
func (f file) intact(dir string) bool {
	path := filepath.Join(dir, f.name)
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	if f.link != "" {
		target, err := os.Readlink(path)
		return err == nil && target == f.link
	}
	if !info.Mode().IsRegular() || info.Mode().Perm() != f.mode || info.Size() != f.size {
		return false
	}
	sum, _, err := sumOf(path)
	return err == nil && sum == f.sum
}
