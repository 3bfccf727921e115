package dockerfile_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	from     = regexp.MustCompile(`(?m)^FROM (\S+)`)
	argument = regexp.MustCompile(`(?m)^ARG (GOLANG_IMAGE|DEBIAN_IMAGE)=(\S+)$`)
)

// TestBaseImagesCanBePinned holds that each image of another registry is an argument,
// and that its default and the value in versions.mk, but for a digest, are one.
func TestBaseImagesCanBePinned(t *testing.T) {
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
			if !regexp.MustCompile(`(?m)^` + match[1] + ` := ` + regexp.QuoteMeta(match[2]) + `(@sha256:[0-9a-f]{64})?$`).Match(versions) {
				t.Errorf("%s: versions.mk does not set %s to %s", file, match[1], match[2])
			}
		}
		for _, match := range from.FindAllStringSubmatch(string(text), -1) {
			if _, ok := defaults[match[1]]; !ok && match[1] != "scratch" && !strings.Contains(match[1], "@sha256:") {
				t.Errorf("%s: FROM %s: make the image an argument, so that it can be pinned by digest", file, match[1])
			}
		}
	}
}
