package app_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"outrigger.dev/images/internal/app"
)

// platforms is a folder with one component, agent, whose program is built for both
// architectures.
func platforms(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	put(t, filepath.Join(root, "main.go"), "package main\n\nfunc main() {}\n")
	put(t, filepath.Join(root, "go.mod"), "module example.org/agent\n\ngo 1.26.0\n")
	put(t, filepath.Join(root, "images/Dockerfile"), strings.ReplaceAll(static, "prog", "agent"))
	for _, arch := range []string{"amd64", "arm64"} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", filepath.Join(root, "build", arch, "agent"), ".")
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build for %s: %v: %s", arch, err, out)
		}
	}
	return root
}

// write runs "images release" on root, and returns its exit code and what it printed.
func write(root, out string, args ...string) (int, string) {
	var printed bytes.Buffer
	code := app.Main(append([]string{
		"images", "release", "--dir", filepath.Join(root, "images"), "--bin", filepath.Join(root, "build"),
		"--libc6", filepath.Join(root, "libc6"), "--out", out, "--version", "26.11.0", "--source-date-epoch", "1700000000",
	}, args...), &printed, &printed)
	return code, printed.String()
}

// files returns the content of all files below root.
func files(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, root)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestReleaseHasAllArchitectures(t *testing.T) {
	root, out := platforms(t), t.TempDir()
	if code, printed := write(root, out); code != 0 {
		t.Fatal(printed)
	}
	found := files(t, out)
	for _, arch := range []string{"amd64", "arm64"} {
		name := archiveFor(t, out, arch)
		names := string(unpack(t, filepath.Join(out, "images", name+".tar"))["manifest.json"])
		if !strings.Contains(names, `/agent:26.11.0-`) || !strings.Contains(names, `/agent:26.11.0"`) {
			t.Errorf("the archive for %s has the names %s", arch, names)
		}
		for _, document := range []string{"/sbom/programs/agent-" + arch + ".cdx.json", "/sbom/images/" + name + ".cdx.json"} {
			if !strings.Contains(found[document], "pkg:golang/example.org/agent@26.11.0") {
				t.Errorf("%s does not name the program: %s", document, found[document])
			}
		}
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(out, "images/agent"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
}

// archiveFor returns the name of the one archive for arch.
func archiveFor(t *testing.T, out, arch string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(out, "images/agent-26.11.0-*-"+arch+".tar"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the archives for %s are %v, %v", arch, found, err)
	}
	return strings.TrimSuffix(filepath.Base(found[0]), ".tar")
}

// TestReleaseIsReproducible makes a release twice, from other folders, with another
// folder for temporary files and with another umask.
func TestReleaseIsReproducible(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	if code, printed := write(platforms(t), first); code != 0 {
		t.Fatal(printed)
	}
	t.Setenv("TMPDIR", t.TempDir())
	umask := syscall.Umask(0o077)
	defer syscall.Umask(umask)
	if code, printed := write(platforms(t), second); code != 0 {
		t.Fatal(printed)
	}
	if diff := cmp.Diff(files(t, first), files(t, second)); diff != "" {
		t.Errorf("the same input gave other files (-first +second):\n%s", diff)
	}
}

// put writes a file below a folder of a test.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReleaseNamesWhatIsMissing(t *testing.T) {
	root := platforms(t)
	// The programs for arm64, as if they were for amd64.
	swapped := filepath.Join(root, "swapped")
	if err := os.CopyFS(filepath.Join(swapped, "amd64"), os.DirFS(filepath.Join(root, "build/arm64"))); err != nil {
		t.Fatal(err)
	}
	// A component with the base.
	linked := filepath.Join(root, "linked")
	put(t, filepath.Join(linked, "Dockerfile"),
		strings.Replace(strings.ReplaceAll(static, "prog", "agent"), "COPY --from=build", "COPY --from=base /rootfs/ /\nCOPY --from=build", 1))
	put(t, filepath.Join(linked, "base/rootfs.sh"), "exit 1\n")
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]

	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an architecture that was not built":       {[]string{"--arch", "riscv64"}, "riscv64"},
		"programs of another architecture":         {[]string{"--bin", swapped, "--arch", "amd64"}, "not for amd64: build it with GOARCH=amd64"},
		"the C library of another architecture":    {[]string{"--dir", linked, "--arch", other}, "images/base/libc6.sh"},
		"a folder in which nothing can be written": {[]string{"--out", "/dev/null/x"}, "/dev/null"},
		"a version that is no tag":                 {[]string{"--version", "1 2"}, "1 2"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, printed := write(root, t.TempDir(), tc.args...); code != 1 || !strings.Contains(printed, tc.want) {
				t.Errorf("exit code %d: %s, want %q", code, printed, tc.want)
			}
		})
	}
}
