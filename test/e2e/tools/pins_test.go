package tools_test

import (
	"strings"
	"testing"
)

const (
	golang = "golang:1.26-bookworm@sha256:" + digest
	debian = "debian:bookworm-slim@sha256:" + digest
	digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

	dockerfile = "images/Dockerfile"
	workflow   = ".github/workflows/release.yaml"
)

// newPinned returns a repository with a Dockerfile and a workflow.
func newPinned(t *testing.T) checkout {
	t.Helper()
	return newCheckout(t, map[string]string{
		dockerfile: "ARG GOLANG_IMAGE=golang:1.26-bookworm\nARG DEBIAN_IMAGE=debian:bookworm-slim\nFROM ${GOLANG_IMAGE} AS build\nENV GOTOOLCHAIN=go1.26.0\n",
		workflow:   "jobs:\n  build:\n    container: golang:1.26-bookworm\n",
	}, "pins.sh")
}

// pins runs the script with the images of versions.mk.
func (c checkout) pins(golang, debian string, args ...string) (string, error) {
	c.t.Helper()
	return c.run([]string{"GO_VERSION=1.26.11", "GOLANG_IMAGE=" + golang, "DEBIAN_IMAGE=" + debian}, "pins.sh", args...)
}

func TestPinnedImagesHaveDigests(t *testing.T) {
	c := newPinned(t)
	if out, err := c.pins("golang:1.26-bookworm", debian, "--check"); err == nil ||
		!strings.Contains(out, "GOLANG_IMAGE in versions.mk is golang:1.26-bookworm, without a digest") ||
		!strings.Contains(out, "images/Dockerfile does not have the DEBIAN_IMAGE of versions.mk: run: make pins") ||
		!strings.Contains(out, "images/Dockerfile does not have the GO_VERSION of versions.mk: run: make pins") {
		t.Errorf("without a digest, and with a Dockerfile that lacks the other: %v: %s", err, out)
	}
	if out, err := c.pins(golang, debian); err != nil {
		t.Fatalf("write the digests: %v: %s", err, out)
	}
	if text := c.read(dockerfile); !strings.HasPrefix(text, "ARG GOLANG_IMAGE="+golang+"\nARG DEBIAN_IMAGE="+debian+"\nFROM ") ||
		!strings.HasSuffix(text, "\nENV GOTOOLCHAIN=go1.26.11\n") {
		t.Errorf("the Dockerfile is %q", text)
	}
	c.write(workflow, "    container: golang:1.25-bookworm\n")
	if out, err := c.pins(golang, debian, "--check"); err == nil || !strings.Contains(out, workflow+" does not have the GOLANG_IMAGE of versions.mk: run: make pins") {
		t.Errorf("with another image in the workflow: %v: %s", err, out)
	}
	if out, err := c.pins(golang, debian); err != nil {
		t.Fatalf("write the digests again: %v: %s", err, out)
	}
	if text := c.read(workflow); text != "    container: "+golang+"\n" {
		t.Errorf("the workflow is %q", text)
	}
	if out, err := c.pins(golang, debian, "--check"); err != nil || out != "" {
		t.Errorf("with all digests: %v: %s", err, out)
	}
	if out, err := c.pins(golang, debian, "--chekc"); err == nil || !strings.Contains(out, "unknown arguments: --chekc") {
		t.Errorf("with an unknown argument: %v: %s", err, out)
	}
}
