package dockerfile_test

import (
	"bytes"
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

// TestBaseImagesAreThoseOfVersions holds that each image of another registry is an argument
// whose default is the value in versions.mk, and so has its digest once that does.
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
		}
		for _, match := range from.FindAllStringSubmatch(string(text), -1) {
			if _, ok := defaults[match[1]]; !ok && match[1] != "scratch" && !strings.Contains(match[1], "@sha256:") {
				t.Errorf("%s: FROM %s: make the image an argument, so that it can be pinned by digest", file, match[1])
			}
		}
	}
}
