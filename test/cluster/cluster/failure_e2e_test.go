//go:build e2e

package cluster_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/cluster/cluster"
)

func TestUpThatFails(t *testing.T) {
	const broken = "#!/bin/sh\necho this component is broken\nexit 1\n"
	for name, test := range map[string]struct {
		program string
		want    string
	}{
		"a component that ends shows its log": {"cluster-components/kubernetes", "the end of the log of kube-apiserver on node0:\nthis component is broken"},
		"a node that ends shows its log":      {"cluster", "the end of the log of init on node0:\nthis component is broken"},
	} {
		t.Run(name, func(t *testing.T) {
			before := takeSnapshot(t)
			bin := copyOf(t, binDir(t))
			if err := os.Remove(filepath.Join(bin, test.program)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(bin, test.program), []byte(broken), 0o755); err != nil {
				t.Fatal(err)
			}
			// A broken program never becomes ready, so a short time limit is enough.
			ctx, cancel := context.WithTimeout(testContext(t), 5*time.Second)
			defer cancel()
			var out strings.Builder
			_, err := cluster.Up(ctx, cluster.Config{BinDir: bin, Progress: &out})
			if err == nil {
				t.Error("up succeeded with a broken program")
			}
			if !strings.Contains(out.String(), test.want) {
				t.Errorf("up printed\n%s\n%v\nwant in it\n%s", out.String(), err, test.want)
			}
			checkSame(t, before)
		})
	}
}

// copyOf returns a folder with links to the content of the folder of programs.
func copyOf(t *testing.T, bin string) string {
	t.Helper()
	dir := t.TempDir()
	for _, sub := range []string{".", "cluster-components", "cluster-components/cni"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join(bin, sub))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() {
				continue
			}
			if err := os.Symlink(filepath.Join(bin, sub, e.Name()), filepath.Join(dir, sub, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}
