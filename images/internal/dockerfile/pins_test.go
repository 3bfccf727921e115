package dockerfile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"outrigger.dev/images/internal/dockerfile"
)

var (
	from     = regexp.MustCompile(`(?m)^FROM (\S+)`)
	argument = regexp.MustCompile(`(?m)^ARG (GOLANG_IMAGE|DEBIAN_IMAGE)=(\S+)$`)
	pinned   = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
)

// TestBaseImagesAreThoseOfVersions holds that each image of another registry is an argument
// whose default is the value in versions.mk, with a digest.
func TestBaseImagesAreThoseOfVersions(t *testing.T) {
	versions, err := os.ReadFile("../../../versions.mk")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../*/Dockerfile")
	if err != nil || len(files) == 0 {
		t.Fatalf("find Dockerfiles: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		defaults := map[string]string{}
		for _, match := range argument.FindAllStringSubmatch(string(text), -1) {
			defaults["${"+match[1]+"}"] = match[2]
			if !bytes.Contains(versions, []byte("\n"+match[1]+" := "+match[2]+"\n")) {
				t.Errorf("%s: versions.mk does not set %s to %s: run: make pins", file, match[1], match[2])
			}
			if !pinned.MatchString(match[2]) {
				t.Errorf("%s: %s is %s, without a digest", file, match[1], match[2])
			}
		}
		for _, match := range from.FindAllStringSubmatch(string(text), -1) {
			if _, ok := defaults[match[1]]; !ok && match[1] != "scratch" && !strings.Contains(match[1], "@sha256:") {
				t.Errorf("%s: FROM %s: make the image an argument, so that it can be pinned by digest", file, match[1])
			}
		}
	}
}

// TestImagesSayWhereTheyComeFrom has the labels that registries and scanners show.
func TestImagesSayWhereTheyComeFrom(t *testing.T) {
	files, err := filepath.Glob("../../*/Dockerfile")
	if err != nil || len(files) == 0 {
		t.Fatalf("find Dockerfiles: %v, %v", files, err)
	}
	const base, revision = "docker.io/library/debian:13", "0a1b"
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		args := map[string]string{"VERSION": "1.2.3", "OS_BASE": "debian13", "BASE_NAME": base, "REVISION": revision}
		recipe, err := dockerfile.Parse(f, dockerfile.Options{Path: file, Args: args})
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"title": filepath.Base(filepath.Dir(file)), "version": "1.2.3-debian13", "revision": revision, "base.name": base,
			"url": "https://", "source": "https://", "licenses": "Apache-2.0", "description": "", "vendor": "Outrigger",
		} {
			if got, set := recipe.Labels["org.opencontainers.image."+name]; !set || !strings.HasPrefix(got, want) {
				t.Errorf("%s: the label org.opencontainers.image.%s is %q, want %q", file, name, got, want)
			}
		}
	}
}
