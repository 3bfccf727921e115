package tools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	golang = "golang:1.26-bookworm@sha256:" + digest
	debian = "debian:bookworm-slim@sha256:" + digest
	digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// pinned is a repository with a Dockerfile.
type pinned struct {
	t          *testing.T
	root, file string
}

func newPinned(t *testing.T) pinned {
	t.Helper()
	p := pinned{t: t, root: t.TempDir()}
	p.file = filepath.Join(p.root, "images/agent/Dockerfile")
	script, err := os.ReadFile(filepath.Join(repository(t), "tools/pins.sh"))
	if err != nil {
		t.Fatal(err)
	}
	p.write(filepath.Join(p.root, "tools/pins.sh"), string(script))
	p.write(filepath.Join(p.root, "test/README.md"), "")
	p.write(p.file, "ARG GOLANG_IMAGE=golang:1.26-bookworm\nARG DEBIAN_IMAGE=debian:bookworm-slim\nFROM ${GOLANG_IMAGE} AS build\n")
	p.git("init", "-q")
	p.commit()
	return p
}

func (p pinned) write(path, text string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // one of them is a script
		p.t.Fatal(err)
	}
}

func (p pinned) git(args ...string) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "git", append([]string{"-C", p.root, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (p pinned) commit() {
	p.t.Helper()
	p.git("add", "-A")
	p.git("commit", "-q", "-m", "all")
}

// pins runs the script with the images of versions.mk.
func (p pinned) pins(golang, debian string, args ...string) (string, error) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), filepath.Join(p.root, "tools/pins.sh"), args...)
	cmd.Env = append(os.Environ(), "GOLANG_IMAGE="+golang, "DEBIAN_IMAGE="+debian)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestAReleaseHasDigests(t *testing.T) {
	p := newPinned(t)
	if out, err := p.pins("golang:1.26-bookworm", debian, "--release"); err == nil ||
		!strings.Contains(out, "GOLANG_IMAGE in versions.mk is golang:1.26-bookworm, without a digest") ||
		!strings.Contains(out, "images/agent/Dockerfile does not have the DEBIAN_IMAGE of versions.mk: run: make pins") {
		t.Errorf("without a digest, and with a Dockerfile that lacks the other: %v: %s", err, out)
	}
	if out, err := p.pins(golang, debian); err != nil {
		t.Fatalf("write the digests: %v: %s", err, out)
	}
	if text, err := os.ReadFile(p.file); err != nil || !strings.HasPrefix(string(text), "ARG GOLANG_IMAGE="+golang+"\nARG DEBIAN_IMAGE="+debian+"\nFROM ") {
		t.Errorf("the Dockerfile is %q: %v", text, err)
	}
	if out, err := p.pins(golang, debian, "--release"); err == nil || !strings.Contains(out, "files differ from the commit") {
		t.Errorf("with a file that is not committed: %v: %s", err, out)
	}
	p.commit()
	if out, err := p.pins(golang, debian, "--release"); err != nil || out != "" {
		t.Errorf("with all that a release needs: %v: %s", err, out)
	}
	if out, err := p.pins(golang, debian, "--relaese"); err == nil || !strings.Contains(out, "unknown arguments: --relaese") {
		t.Errorf("with an unknown argument: %v: %s", err, out)
	}
}
