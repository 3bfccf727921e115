// Package base makes the root file system for programs that link glibc, and checks
// that it contains the libraries that a program links.
package base

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// OS is the distribution whose libc6 the images contain.
type OS struct {
	// ID and Version are those of /etc/os-release: "debian" and "12".
	ID, Version string
}

// String returns the name of the distribution in image tags, such as "debian12" or
// "ubuntu24.04".
func (o OS) String() string { return o.ID + o.Version }

// Reference returns the name of the distribution's own image, such as
// "docker.io/library/debian:12".
func (o OS) Reference() string { return "docker.io/library/" + o.ID + ":" + o.Version }

// ReadOS returns the distribution that the content of /etc/os-release describes.
func ReadOS(osRelease []byte) (OS, error) {
	values := map[string]string{}
	for line := bufio.NewScanner(bytes.NewReader(osRelease)); line.Scan(); {
		if key, value, ok := strings.Cut(line.Text(), "="); ok {
			values[key] = strings.Trim(value, `"'`)
		}
	}
	id, version := values["ID"], values["VERSION_ID"]
	if (id != "debian" && id != "ubuntu") || version == "" {
		return OS{}, fmt.Errorf("name base: unsupported distribution %q %q: build the images on Debian or Ubuntu, whose libc6 they contain", id, version)
	}
	return OS{ID: id, Version: version}, nil
}

// Make runs script, which creates the tree, and returns its folder below cache. It
// reuses a tree that the same script created from the same libc6.
func Make(ctx context.Context, script, cache string) (string, error) {
	text, err := os.ReadFile(script)
	if err != nil {
		return "", fmt.Errorf("make base: %w", err)
	}
	libc, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${Version} ${Architecture}", "libc6").Output()
	if err != nil {
		return "", fmt.Errorf("make base: read version of libc6 from dpkg: %w: build the images on Debian or Ubuntu", err)
	}
	sum := sha256.Sum256(append(text, libc...))
	dir := filepath.Join(cache, fmt.Sprintf("%x", sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make base: %w", err)
	}
	// Rename the complete tree into place, so that an existing tree is complete.
	temp, err := os.MkdirTemp(cache, ".new-")
	if err != nil {
		return "", fmt.Errorf("make base: %w", err)
	}
	defer os.RemoveAll(temp)
	if out, err := exec.CommandContext(ctx, "/bin/sh", script, temp).CombinedOutput(); err != nil {
		return "", fmt.Errorf("make base with %s: %w: %s", script, err, bytes.TrimSpace(out))
	}
	// The next build can be that of another user.
	err = os.Chmod(temp, 0o755)
	if err == nil {
		err = os.Rename(temp, dir)
	}
	// A tree that another process created meanwhile is complete.
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make base: %w", err)
	}
	return dir, nil
}

// Check reports the libraries that program links and root lacks. For a static
// program, root can be empty.
func Check(program io.ReaderAt, root string) error {
	file, err := elf.NewFile(program)
	if err != nil {
		return fmt.Errorf("read ELF file: %w", err)
	}
	needed, err := file.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("read its linked libraries: %w", err)
	}
	if len(needed) == 0 {
		return nil
	}
	if root == "" {
		return fmt.Errorf("it links %s: copy the base before it, or build it with CGO_ENABLED=0", strings.Join(needed, ", "))
	}
	held, err := filepath.Glob(filepath.Join(root, "usr/lib/*/*.so.*"))
	if err != nil {
		return err
	}
	for i := range held {
		held[i] = filepath.Base(held[i])
	}
	missing := slices.DeleteFunc(needed, func(name string) bool { return slices.Contains(held, name) })
	if len(missing) > 0 {
		return fmt.Errorf("it links %s, which the base lacks: add the library to images/base/rootfs.sh", strings.Join(missing, ", "))
	}
	return nil
}
