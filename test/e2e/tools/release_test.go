package tools_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const versionsMK = "# The calendar version.\nVERSION := 25.3.0\n"

// newRelease returns a repository with a chart, from which a release can be made.
func newRelease(t *testing.T) checkout {
	t.Helper()
	return newCheckout(t, map[string]string{
		"versions.mk":             versionsMK,
		"charts/agent/Chart.yaml": "version: 25.3.0\nappVersion: 25.3.0\nannotations:\n  outrigger.dev/os-base: debian12\n",
		"images/Dockerfile":       "ARG GOLANG_IMAGE=" + golang + "\nARG DEBIAN_IMAGE=" + debian + "\nENV GOTOOLCHAIN=go1.26.11\n",
		workflow:                  "    container: " + golang + "\n",
	}, "release.sh", "cross.sh", "pins.sh", "bump.sh")
}

// foreign is the other architecture, and the name of its compiler.
func foreign() (arch, compiler string) {
	if runtime.GOARCH == "arm64" {
		return "amd64", "x86_64-linux-gnu-gcc"
	}
	return "arm64", "aarch64-linux-gnu-gcc"
}

func TestAReleaseIsMadeOfACommit(t *testing.T) {
	other, compiler := foreign()
	for name, tc := range map[string]struct {
		change func(c checkout)
		env    []string
		archs  []string
		want   string // no error if empty
	}{
		"all is there": {},
		"a nightly":    {env: []string{"CHANNEL=nightly", "VERSION=25.3.0-nightly.20250301"}},
		"a file that is not committed": {
			change: func(c checkout) { c.write("new", "") },
			want:   "files differ from the commit",
		},
		"a file that differs from the commit": {
			change: func(c checkout) { c.write("versions.mk", versionsMK+"\n") },
			want:   "files differ from the commit",
		},
		"no checkout": {
			change: func(c checkout) { _ = os.RemoveAll(filepath.Join(c.root, ".git")) },
			want:   "no checkout of git",
		},
		"a version that versions.mk does not have": {env: []string{"VERSION=25.12.0"}, want: "make bump TO=25.12.0"},
		"a version that has a suffix":              {env: []string{"VERSION=25.3.0-rc1"}, want: "versions.mk has 25.3.0"},
		"a nightly without a date":                 {env: []string{"CHANNEL=nightly"}, want: "a nightly is 25.3.0-nightly.YYYYMMDD"},
		"an unknown channel":                       {env: []string{"CHANNEL=weekly"}, want: "no channel weekly: use stable or nightly"},
		"a machine with another base":              {env: []string{"OS_BASE=debian13"}, want: "charts/agent/Chart.yaml takes images for debian12"},
		"an unknown architecture":                  {archs: []string{runtime.GOARCH, "riscv64"}, want: "nothing is built for the architecture riscv64"},
		"no architecture":                          {archs: []string{}, want: "name the architectures"},
		"images without a digest":                  {env: []string{"GOLANG_IMAGE=golang:1.26-bookworm"}, want: "GOLANG_IMAGE in versions.mk is golang:1.26-bookworm, without a digest"},
		"no compiler for another architecture": {
			change: func(c checkout) {
				c.write("bin/"+compiler, "#!/bin/sh\nexit 127\n")
				c.commit()
				c.t.Setenv("PATH", filepath.Join(c.root, "bin")+":"+os.Getenv("PATH"))
			},
			archs: []string{other},
			want:  "no C compiler for " + other + ": apt-get install gcc-" + strings.TrimSuffix(compiler, "-gcc"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newRelease(t)
			if tc.change != nil {
				tc.change(c)
			}
			archs := tc.archs
			if archs == nil {
				archs = []string{runtime.GOARCH}
			}
			env := append([]string{"CHANNEL=stable", "VERSION=25.3.0", "OS_BASE=debian12", "GO_VERSION=1.26.11", "GOLANG_IMAGE=" + golang, "DEBIAN_IMAGE=" + debian}, tc.env...)
			out, err := c.run(env, "release.sh", append([]string{"check"}, archs...)...)
			if (err != nil) != (tc.want != "") || !strings.Contains(out, tc.want) || tc.want == "" && out != "" {
				t.Errorf("it fails with %v and prints %q, want %q", err, out, tc.want)
			}
			if lines := strings.Count(out, "\n"); tc.want != "" && lines != 1 {
				t.Errorf("%d lines, want one: %s", lines, out)
			}
		})
	}
}

// A program that links C is built for another architecture, for which Go disables cgo by default.
func TestProgramsAreBuiltForAnotherArchitecture(t *testing.T) {
	other, compiler := foreign()
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("this machine has no %s: tools/packages.sh packages-test.txt installs it", compiler)
	}
	c := checkout{t: t, root: t.TempDir()}
	for _, folder := range []string{"pkg", "samples", "tools"} {
		if err := os.CopyFS(filepath.Join(c.root, folder), os.DirFS(filepath.Join(repository(t), folder))); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := c.run([]string{"VERSION=25.3.0", "CGO_ENABLED="}, "cross.sh", "samples/vectoradd/...", "--", other); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(c.root, "out/build", other, "vectoradd")); err != nil {
		t.Error(err)
	}
}

// made builds a program that links C in a copy of the repository, and returns all files of
// its release.
func made(t *testing.T) map[string]string {
	t.Helper()
	c := checkout{t: t, root: t.TempDir()}
	for _, folder := range []string{"pkg", "samples", "tools", "images/base"} {
		if err := os.CopyFS(filepath.Join(c.root, folder), os.DirFS(filepath.Join(repository(t), folder))); err != nil {
			t.Fatal(err)
		}
	}
	c.write("images/Dockerfile", "FROM debian AS base\nFROM golang AS build\nFROM scratch AS image\n"+
		"FROM image AS vectoradd\nCOPY --from=base /rootfs/ /\nCOPY --from=build /out/vectoradd /usr/bin/vectoradd\n")
	if out, err := c.run([]string{"VERSION=25.3.0"}, "cross.sh", "samples/vectoradd/...", "--", runtime.GOARCH); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program := filepath.Join(repository(t), "bin/images")
	if bin := os.Getenv("OUTRIGGER_BIN"); bin != "" {
		program = filepath.Join(bin, "images")
	}
	release := exec.CommandContext(t.Context(), program, "release", "--arch", runtime.GOARCH, "--version", "25.3.0", "--out", "out/release/stable")
	release.Dir = c.root
	if out, err := release.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found := map[string]string{}
	root := os.DirFS(filepath.Join(c.root, "out/release/stable"))
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, path)
		found[path] = fmt.Sprintf("%x", sha256.Sum256(text))
		return err
	})
	if err != nil || len(found) < 7 {
		t.Fatalf("the release has %d files: %v", len(found), err)
	}
	return found
}

// TestAReleaseIsReproducible makes one program, its image and its documents twice: in
// different folders, with another umask and another folder for temporary files.
func TestAReleaseIsReproducible(t *testing.T) {
	if _, err := os.Stat("/etc/debian_version"); err != nil {
		t.Skip("this machine has no dpkg: images are made on Debian or Ubuntu")
	}
	first := made(t)
	t.Setenv("TMPDIR", t.TempDir())
	umask := syscall.Umask(0o077)
	defer syscall.Umask(umask)
	if diff := cmp.Diff(first, made(t)); diff != "" {
		t.Errorf("the same input gave other files (-first +second):\n%s", diff)
	}
}

// TestAssetsAreTheFilesOfARelease copies what the page of a release offers.
func TestAssetsAreTheFilesOfARelease(t *testing.T) {
	c := newRelease(t)
	env := []string{"CHANNEL=stable", "VERSION=25.3.0", "OS_BASE=debian12", "REGISTRY=registry.example.org/gpu/", "DOWNLOADS=https://downloads.example.org/25.3.0"}
	if out, err := c.run(env, "release.sh", "assets"); err == nil || !strings.Contains(out, "run make release first") {
		t.Errorf("without a release: %v: %s", err, out)
	}
	for path, text := range map[string]string{
		"SHA256SUMS": "of all files\n", "BUILD": "commit\n", "charts/a-25.3.0.tgz": "chart\n", "charts/index.yaml": "index\n", "images/a.tar": "image\n",
		"manifests/a.yaml": "a:\n  image: outrigger.dev/a:25.3.0-debian12\n", "packages/a.deb": "deb\n", "source/outrigger-25.3.0.tar.gz": "source\n",
		"sbom/images/a.cdx.json": "{}\n", "kubectl/outrigger.krew.yaml": "uri: DOWNLOADS/plugin.tar.gz\n", "kubectl/plugin.tar.gz": "plugin\n",
	} {
		c.write("out/release/stable/"+path, text)
	}
	var before string
	for range 2 {
		if out, err := c.run(env, "release.sh", "assets"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		sums := c.read("out/release/assets/SHA256SUMS")
		if before != "" && sums != before {
			t.Errorf("the second run has other files:\n%s, want\n%s", sums, before)
		}
		before = sums
	}
	var names []string
	for line := range strings.Lines(before) {
		names = append(names, strings.Fields(line)[1])
	}
	want := []string{"BUILD", "a-25.3.0.tgz", "a.deb", "a.yaml", "outrigger-25.3.0.tar.gz", "outrigger.krew.yaml", "plugin.tar.gz", "sbom-25.3.0.tar.gz"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("the checksums (-want +got):\n%s", diff)
	}
	if text := c.read("out/release/assets/a.yaml"); text != "a:\n  image: registry.example.org/gpu/a:25.3.0-debian12\n" {
		t.Errorf("the manifest is %q", text)
	}
	if text := c.read("out/release/assets/outrigger.krew.yaml"); text != "uri: https://downloads.example.org/25.3.0/plugin.tar.gz\n" {
		t.Errorf("the manifest for krew is %q", text)
	}
}

func TestBumpWritesTheVersionWhereverItStands(t *testing.T) {
	c := newRelease(t)
	c.write("CHANGELOG.md", "## 25.3.0\n")
	c.write("agents/go.mod", "require example.org/x v25.3.0\n")
	c.write("docs/agent.md", "agent:25.3.0-debian12, not 125.3.0 or 25.3.01\n")
	c.commit()
	out, err := c.run(nil, "bump.sh", "25.12.0")
	if err != nil || !strings.HasPrefix(out, "25.3.0 → 25.12.0 in 3 files;") {
		t.Fatalf("%v: %s", err, out)
	}
	for path, want := range map[string]string{
		"versions.mk":             "# The calendar version.\nVERSION := 25.12.0\n",
		"charts/agent/Chart.yaml": "version: 25.12.0\nappVersion: 25.12.0\nannotations:\n  outrigger.dev/os-base: debian12\n",
		"docs/agent.md":           "agent:25.12.0-debian12, not 125.3.0 or 25.3.01\n",
		"CHANGELOG.md":            "## 25.3.0\n",
		"agents/go.mod":           "require example.org/x v25.3.0\n",
	} {
		if got := c.read(path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}

func TestBumpRejectsOtherVersions(t *testing.T) {
	for name, tc := range map[string]struct{ version, want string }{
		"no version":                {"", "make bump TO=25.3.1"},
		"the same version":          {"25.3.0", "25.3.0 is not after 25.3.0"},
		"an earlier version":        {"25.1.3", "25.1.3 is not after 25.3.0"},
		"a month with a zero":       {"26.01.0", "26.01.0 is no calendar version"},
		"a month that no year has":  {"25.13.0", "25.13.0 is no calendar version"},
		"a letter in front":         {"v25.12.0", "v25.12.0 is no calendar version"},
		"no number of the month":    {"25.12", "25.12 is no calendar version"},
		"a pre-release of the next": {"25.12.0-rc1", "25.12.0-rc1 is no calendar version"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newRelease(t)
			if out, err := c.run(nil, "bump.sh", tc.version); err == nil || !strings.Contains(out, tc.want) || c.read("versions.mk") != versionsMK {
				t.Errorf("it fails with %v and prints %q, want %q", err, out, tc.want)
			}
		})
	}
}
