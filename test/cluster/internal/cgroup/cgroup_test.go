package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

// The root cgroup of version 2 has no CPU set, and its children have an empty one.
func TestCreateBelowTheRootOfVersion2(t *testing.T) {
	root := t.TempDir()
	for path, content := range map[string]string{
		"cgroup.controllers": "cpuset cpu", "cgroup.subtree_control": "", "node/cpuset.cpus": "", "node/cpuset.mems": "",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := (Tree{name: "node", hierarchies: []string{root}, unified: true}).Create(); err != nil {
		t.Fatal(err)
	}
}
