// Package base makes the folder tree that lies under programs which link glibc,
// and checks that a program finds there what it links.
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

// OS returns the name that the Linux distribution described by osRelease, the
// content of /etc/os-release, has in image tags: "debian12", "ubuntu24.04".
func OS(osRelease []byte) (string, error) {
	values := map[string]string{}
	for line := bufio.NewScanner(bytes.NewReader(osRelease)); line.Scan(); {
		if key, value, ok := strings.Cut(line.Text(), "="); ok {
			values[key] = strings.Trim(value, `"'`)
		}
	}
	id, version := values["ID"], values["VERSION_ID"]
	if (id != "debian" && id != "ubuntu") || version == "" {
		return "", fmt.Errorf("name the base: this is %q %q: images are made on Debian or Ubuntu, with their libc6", id, version)
	}
	return id + version, nil
}

// Make runs script, which makes the tree, and returns its folder below cache. A
// tree that was made by the same script from the same libc6 is used again.
func Make(ctx context.Context, script, cache string) (string, error) {
	text, err := os.ReadFile(script)
	if err != nil {
		return "", fmt.Errorf("make the base: %w", err)
	}
	libc, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${Version} ${Architecture}", "libc6").Output()
	if err != nil {
		return "", fmt.Errorf("make the base: ask dpkg for the version of libc6: %w: images are made on Debian or Ubuntu", err)
	}
	sum := sha256.Sum256(append(text, libc...))
	dir := filepath.Join(cache, fmt.Sprintf("%x", sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make the base: %w", err)
	}
	// Made beside its place and moved there whole, so that a tree that is there
	// is complete.
	temp, err := os.MkdirTemp(cache, ".new-")
	if err != nil {
		return "", fmt.Errorf("make the base: %w", err)
	}
	defer os.RemoveAll(temp)
	if out, err := exec.CommandContext(ctx, "/bin/sh", script, temp).CombinedOutput(); err != nil {
		return "", fmt.Errorf("make the base with %s: %w: %s", script, err, bytes.TrimSpace(out))
	}
	// Who builds images next may be another user.
	err = os.Chmod(temp, 0o755)
	if err == nil {
		err = os.Rename(temp, dir)
	}
	// Another process that made the same tree meanwhile made it whole.
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make the base: %w", err)
	}
	return dir, nil
}

// Check reports what program links and root does not hold. A static program
// needs nothing, so root may then be empty.
func Check(program io.ReaderAt, root string) error {
	file, err := elf.NewFile(program)
	if err != nil {
		return fmt.Errorf("read it as an ELF file: %w", err)
	}
	needed, err := file.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("read what it links: %w", err)
	}
	if len(needed) == 0 {
		return nil
	}
	if root == "" {
		return fmt.Errorf("it links %s: copy a base below it, or build it with CGO_ENABLED=0", strings.Join(needed, ", "))
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
		return fmt.Errorf("it links %s, which the base lacks: add it to images/base/rootfs.sh", strings.Join(missing, ", "))
	}
	return nil
}
