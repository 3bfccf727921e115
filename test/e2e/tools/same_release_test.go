//go:build e2e

package tools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheSameCommitGivesTheSameRelease makes two releases of the commit that is checked out, in folders
// of different depth, for users with different homes, time zones and umasks, and compares every file.
func TestTheSameCommitGivesTheSameRelease(t *testing.T) {
	first := release(t, t.TempDir(), "TZ=UTC0", "022")
	second := release(t, filepath.Join(t.TempDir(), "deeper", "and deeper"), "TZ=Asia/Tokyo", "077")
	if strings.Count(first, "\n") < 100 {
		t.Fatalf("a release has images, charts, packages and more, this one:\n%s", first)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the checksums of the second release differ from the first one's:\n%s", diff)
	}
}

// release makes a release for this architecture in a clone in a new folder, and returns its checksums.
func release(t *testing.T, parent, zone, umask string) string {
	t.Helper()
	root := clone(t, parent)
	out, err := makeIn(t, root, "release ARCHS="+runtime.GOARCH, zone, umask)
	if strings.Contains(out, "this machine makes them for") {
		t.Skip("this machine makes other images than those that the charts name")
	}
	if err != nil {
		t.Fatalf("make release: %v\n%s", err, out)
	}
	c := checkout{t: t, root: root}
	sums := c.read("out/release/stable/SHA256SUMS")
	pluginIsPacked(t, c, sums)
	return sums
}

// pluginIsPacked checks that the manifest for krew names the archive of the plugin, and that the plugin in it runs.
func pluginIsPacked(t *testing.T, c checkout, sums string) {
	t.Helper()
	const folder = "kubectl/"
	for line := range strings.Lines(sums) {
		sum, path, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if !strings.HasPrefix(path, folder) || !strings.HasSuffix(path, ".tar.gz") {
			continue
		}
		manifest := c.read("out/release/stable/kubectl/outrigger.krew.yaml")
		for _, want := range []string{"uri: DOWNLOADS/" + strings.TrimPrefix(path, folder), "sha256: " + sum, "arch: " + runtime.GOARCH} {
			if !strings.Contains(manifest, want) {
				t.Errorf("the manifest for krew lacks %q:\n%s", want, manifest)
			}
		}
		to := t.TempDir()
		if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", filepath.Join(c.root, "out/release/stable", path), "-C", to).CombinedOutput(); err != nil {
			t.Fatalf("unpack %s: %v: %s", path, err, out)
		}
		out, err := exec.CommandContext(t.Context(), filepath.Join(to, "kubectl-outrigger"), "--version").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "kubectl-outrigger") {
			t.Errorf("kubectl-outrigger --version: %v: %s", err, out)
		}
		return
	}
	t.Errorf("the release has no plugin of kubectl:\n%s", sums)
}

// clone clones the repository into a new folder, without what is built.
func clone(t *testing.T, parent string) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(repository(t), ".git")); err != nil {
		t.Skip("this machine has no checkout of git")
	}
	root := filepath.Join(parent, "outrigger")
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	checkout{t: t, root: root}.git("clone", "--quiet", "--no-hardlinks", repository(t), root)
	return root
}

// makeIn runs make in a clone, with a new home.
func makeIn(t *testing.T, root, targets, zone, umask string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "umask "+umask+" && make "+targets)
	cmd.Dir = root
	cmd.Env = append(goCaches(t), "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir(), zone)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// goCaches returns the variables by which Go finds what it has downloaded and compiled before.
func goCaches(t *testing.T) []string {
	t.Helper()
	var set []string
	for _, name := range []string{"GOMODCACHE", "GOCACHE", "GOPROXY"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		set = append(set, name+"="+strings.TrimSpace(string(value)))
	}
	return set
}
