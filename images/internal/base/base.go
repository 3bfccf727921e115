// Package base makes the root file system for programs that link glibc. It also checks that the
// root file system contains the libraries that a program links.
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
	"runtime"
	"slices"
	"strings"
)

// OS is the distribution whose libc6 the images contain.
type OS struct {
	// ID and Version are the values in /etc/os-release: "debian" and "12".
	ID, Version string
}

// String returns the name of the distribution in image tags, such as "debian12" or "ubuntu24.04".
func (o OS) String() string { return o.ID + o.Version }

// Reference returns the name of the distribution's own image, such as
// "docker.io/library/debian:12".
func (o OS) Reference() string { return "docker.io/library/" + o.ID + ":" + o.Version }

// ReadOS parses the content of /etc/os-release.
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

// Source is the libc6 package that Make uses to create a tree.
type Source struct {
	// Arch is the architecture of the tree: amd64 or arm64.
	Arch string
	// Packages is the folder of libc6.sh with the unpacked packages of other architectures. For
	// this machine's architecture, the installed package is used.
	Packages string
}

// folder returns the folder of the unpacked package, or "" for the installed one.
func (s Source) folder() string {
	if s.Arch == runtime.GOARCH {
		return ""
	}
	return filepath.Join(s.Packages, s.Arch)
}

// version returns text that identifies the build of the package.
func (s Source) version(ctx context.Context) ([]byte, error) {
	if folder := s.folder(); folder != "" {
		text, err := os.ReadFile(filepath.Join(folder, "DEBIAN/control"))
		if err != nil {
			return nil, fmt.Errorf("make base: %w: get the package libc6: images/base/libc6.sh %s %s", err, s.Packages, s.Arch)
		}
		return text, nil
	}
	libc, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${Version} ${Architecture}", "libc6").Output()
	if err != nil {
		return nil, fmt.Errorf("make base: read version of libc6 from dpkg: %w: build the images on Debian or Ubuntu", err)
	}
	return libc, nil
}

// Make runs script, which creates the tree from source, and returns the tree's folder below cache.
// It reuses a tree that the same script created from the same libc6.
func Make(ctx context.Context, script, cache string, source Source) (string, error) {
	text, err := os.ReadFile(script)
	if err != nil {
		return "", fmt.Errorf("make base: %w", err)
	}
	libc, err := source.version(ctx)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(text, libc...))
	dir := filepath.Join(cache, fmt.Sprintf("%x", sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make base: %w", err)
	}
	// The complete tree is renamed, so that an existing tree is always complete.
	temp, err := os.MkdirTemp(cache, ".new-")
	if err != nil {
		return "", fmt.Errorf("make base: %w", err)
	}
	defer os.RemoveAll(temp)
	if out, err := exec.CommandContext(ctx, "/bin/sh", script, temp, source.folder()).CombinedOutput(); err != nil {
		return "", fmt.Errorf("make base with %s: %w: %s", script, err, bytes.TrimSpace(out))
	}
	// The next build may run as another user.
	err = os.Chmod(temp, 0o755)
	if err == nil {
		err = os.Rename(temp, dir)
	}
	// If another process has created the tree, that tree is complete.
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make base: %w", err)
	}
	return dir, nil
}

// Check returns an error if program is not built for arch, or if it links libraries that root
// lacks. For a static program, root can be empty.
func Check(program io.ReaderAt, arch, root string) error {
	file, err := elf.NewFile(program)
	if err != nil {
		return fmt.Errorf("read ELF file: %w", err)
	}
	machine, known := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
	if !known || file.Machine != machine {
		return fmt.Errorf("it is a program for %s, not for %s: build it with GOARCH=%s", file.Machine, arch, arch)
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
