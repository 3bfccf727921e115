//go:build e2e

package tools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheSameCommitGivesTheSameRelease makes a release of the commit that is checked out, and packs it again in a folder
// of another depth, for a user with another home, time zone and umask, and compares every file.
func TestTheSameCommitGivesTheSameRelease(t *testing.T) {
	root := clone(t, t.TempDir())
	out, err := makeIn(t, root, "release ARCHS="+runtime.GOARCH, "TZ=UTC0", "022")
	if strings.Contains(out, "this machine makes them for") {
		t.Skip("this machine makes other images than those that the charts name")
	}
	if err != nil {
		t.Fatalf("make release: %v\n%s", err, out)
	}
	first := checkout{t: t, root: root}
	sums := first.read(checksums)
	if strings.Count(sums, "\n") < 100 {
		t.Fatalf("a release has images, charts, packages and more, this one:\n%s", sums)
	}
	pluginIsPacked(t, first, sums)
	second := packedAgain(t, first)
	if diff := cmp.Diff(sums, second.read(checksums)); diff != "" {
		t.Errorf("the checksums of the second release differ from the first one's:\n%s", diff)
	}
	t.Run("make charts", func(t *testing.T) { makesCharts(t, root) })
}

const checksums = "out/release/stable/SHA256SUMS"

// again packs a release with the programs that are built in the clone FIRST, in the environment of the Makefile. It builds
// programs of each kind again: in C, in Go with C, and in Go.
const again = `set -euo pipefail
unset MAKEFLAGS
mkdir out
cp -r "$FIRST/bin" .
cp -r "$FIRST/out/libc6" "$FIRST/out/nfd-chart" out/
tools/cross.sh sim/... samples/vectoradd/... -- "$ARCH"
mv out/build again
cp -r "$FIRST/out/build" out/
cp -r again/. out/build/
rm -r again
tools/release.sh write "$ARCH"
`

// packedAgain returns another clone with a release of the same programs.
func packedAgain(t *testing.T, first checkout) checkout {
	t.Helper()
	root := clone(t, filepath.Join(t.TempDir(), "deeper", "and deeper"))
	script := filepath.Join(t.TempDir(), "again")
	if err := os.WriteFile(script, []byte(again), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := makeIn(t, root, "--eval='again: ; @bash "+script+"' again", "TZ=Asia/Tokyo", "077", "FIRST="+first.root, "ARCH="+runtime.GOARCH); err != nil {
		t.Fatalf("pack the release again: %v\n%s", err, out)
	}
	return checkout{t: t, root: root}
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
func makeIn(t *testing.T, root, targets, zone, umask string, variables ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "umask "+umask+" && make "+targets)
	cmd.Dir = root
	cmd.Env = slices.Concat(goCaches(t), variables, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), zone})
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
