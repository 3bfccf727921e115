package dockerfile_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"outrigger.dev/images/internal/dockerfile"
)

// file is the Dockerfile of the repository.
const file = "../../Dockerfile"

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
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"scratch": true, "image": true}
	for _, match := range argument.FindAllStringSubmatch(string(text), -1) {
		known["${"+match[1]+"}"] = true
		if !bytes.Contains(versions, []byte("\n"+match[1]+" := "+match[2]+"\n")) {
			t.Errorf("%s: versions.mk does not set %s to %s: run: make pins", file, match[1], match[2])
		}
		if !pinned.MatchString(match[2]) {
			t.Errorf("%s: %s is %s, without a digest", file, match[1], match[2])
		}
	}
	for _, match := range from.FindAllStringSubmatch(string(text), -1) {
		if !known[match[1]] && !strings.Contains(match[1], "@sha256:") {
			t.Errorf("%s: FROM %s: make the image an argument, so that it can be pinned by digest", file, match[1])
		}
	}
}

// TestImagesSayWhereTheyComeFrom has the labels that registries and scanners show.
func TestImagesSayWhereTheyComeFrom(t *testing.T) {
	parsed, err := dockerfile.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	const base, revision = "docker.io/library/debian:13", "0a1b"
	args := map[string]string{"VERSION": "1.2.3", "OS_BASE": "debian13", "BASE_NAME": base, "REVISION": revision}
	for _, name := range parsed.Images() {
		recipe, err := parsed.Recipe(name, args)
		if err != nil {
			t.Fatal(err)
		}
		for label, want := range map[string]string{
			"title": name, "version": "1.2.3-debian13", "revision": revision, "base.name": base,
			"url": "https://", "source": "https://", "licenses": "Apache-2.0", "description": "", "vendor": "Outrigger",
		} {
			if got, set := recipe.Labels["org.opencontainers.image."+label]; !set || !strings.HasPrefix(got, want) {
				t.Errorf("%s: the label org.opencontainers.image.%s is %q, want %q", name, label, got, want)
			}
		}
	}
}
