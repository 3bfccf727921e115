package base

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Package returns the fields of the Debian package in the tree at root, such as "Version".
func Package(root string) (map[string]string, error) {
	f, err := os.Open(filepath.Join(root, "var/lib/dpkg/status.d/libc6"))
	if err != nil {
		return nil, fmt.Errorf("read the package of the base: %w", err)
	}
	defer f.Close()
	fields := map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ": "); ok {
			fields[name] = value
		}
	}
	return fields, lines.Err()
}
