package systemdtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// cgroup creates a cgroup below the cgroup of this process.
func cgroup(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	root, prefix := "/sys/fs/cgroup", "0::"
	if _, err := os.Stat(root + "/systemd"); err == nil {
		root, prefix = root+"/systemd", ":name=systemd:"
	}
	own := ""
	for line := range strings.Lines(string(data)) {
		if _, path, ok := strings.Cut(line, prefix); ok {
			own = strings.TrimSpace(path)
		}
	}
	dir, err := os.MkdirTemp(filepath.Join(root, own), "systemdtest") //nolint:usetesting // only the file system of cgroups has cgroups
	if err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	return dir
}

// removeGroup removes a cgroup after its processes have ended.
func (h *Host) removeGroup(group string) {
	for range 1000 {
		var left []string
		_ = filepath.WalkDir(group, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				left = append(left, path)
			}
			return nil
		})
		if len(left) == 0 {
			return
		}
		for _, dir := range slices.Backward(left) {
			_ = os.Remove(dir)
		}
		<-time.After(5 * time.Millisecond)
	}
	h.t.Errorf("%s is left", group)
}
