package sbom_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"outrigger.dev/images/internal/sbom"
)

var release = sbom.Release{Version: "26.11.0", Time: time.Unix(1700000000, 0)}

// program builds the program images: one of Go with libraries.
func program(t *testing.T) (path, sum string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "images")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "outrigger.dev/images")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build images: %v: %s", err, out)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, fmt.Sprintf("%x", sha256.Sum256(content))
}

// read decodes a document, and checks that every reference leads somewhere.
func read(t *testing.T, document []byte) *cdx.BOM {
	t.Helper()
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(bytes.NewReader(document), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{bom.Metadata.Component.BOMRef: true}
	for _, c := range *bom.Components {
		if known[c.BOMRef] {
			t.Errorf("%s is there twice", c.BOMRef)
		}
		known[c.BOMRef] = true
	}
	for _, d := range *bom.Dependencies {
		for _, ref := range append([]string{d.Ref}, *d.Dependencies...) {
			if !known[ref] {
				t.Errorf("%s is no component", ref)
			}
		}
	}
	return bom
}

// versions returns the version of each component.
func versions(bom *cdx.BOM) map[string]string {
	found := map[string]string{}
	for _, c := range *bom.Components {
		found[c.Name] = c.Version
	}
	return found
}

// module returns the version of a module in go.mod.
func module(t *testing.T, path string) string {
	t.Helper()
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(mod), "\t"+path+" ")
	version, _, _ := strings.Cut(rest, "\n")
	return version
}

func TestDocuments(t *testing.T) {
	path, sum := program(t)
	t.Run("of a program list its modules", func(t *testing.T) { checkProgram(t, path, sum) })
	t.Run("of an image list its packages and programs", func(t *testing.T) { checkImage(t, path, sum) })
}

func checkProgram(t *testing.T, path, sum string) {
	t.Helper()
	document, err := release.Program(path)
	if err != nil {
		t.Fatal(err)
	}
	bom := read(t, document)
	subject := bom.Metadata.Component
	if subject.Name != filepath.Base(path) || subject.Version != "26.11.0" || (*subject.Hashes)[0].Value != sum ||
		subject.PackageURL != "pkg:golang/outrigger.dev/images@26.11.0" {
		t.Errorf("the document is about %+v", subject)
	}
	if bom.SpecVersion != cdx.SpecVersion1_6 || bom.Metadata.Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("version %s, time %s", bom.SpecVersion, bom.Metadata.Timestamp)
	}
	found := versions(bom)
	for name, want := range map[string]string{
		"github.com/CycloneDX/cyclonedx-go": module(t, "github.com/CycloneDX/cyclonedx-go"),
		"stdlib":                            strings.TrimPrefix(runtime.Version(), "go"),
		"outrigger.dev/pkg":                 "26.11.0", // a folder of the repository
	} {
		if found[name] != want || want == "" {
			t.Errorf("%s has version %q, want %q", name, found[name], want)
		}
	}
	if strings.Contains(string(document), "devel") {
		t.Errorf("a version is unknown:\n%s", document)
	}
	again, err := release.Program(path)
	if err != nil || !bytes.Equal(document, again) {
		t.Errorf("the same program gave another document: %v", err)
	}
}

func checkImage(t *testing.T, path, sum string) {
	t.Helper()
	digest := strings.Repeat("5", 64)
	document, err := release.Image(sbom.Image{
		Repository: "outrigger.dev/agent", Tag: "26.11.0-debian12", Arch: "arm64", Digest: digest,
		Distribution: "debian", Release: "12", Programs: []string{path, path},
		Packages: []sbom.Package{{Name: "libc6", Source: "glibc", Version: "2.36-9+deb12u14", Arch: "arm64", Maintainer: "Debian"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	bom := read(t, document)
	if want := "pkg:oci/agent@sha256%3A" + digest + "?arch=arm64&repository_url=outrigger.dev%2Fagent&tag=26.11.0-debian12"; bom.Metadata.Component.PackageURL != want {
		t.Errorf("the document is about %s, want %s", bom.Metadata.Component.PackageURL, want)
	}
	var urls []string
	for _, c := range *bom.Components {
		urls = append(urls, c.PackageURL)
	}
	for _, want := range []string{
		"pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=arm64&distro=debian-12&upstream=glibc",
		"pkg:golang/outrigger.dev/images@26.11.0",
		"pkg:golang/outrigger.dev/pkg@26.11.0",
	} {
		if !slices.Contains(urls, want) {
			t.Errorf("%s is missing in %q", want, urls)
		}
	}
	if found := versions(bom); found["debian"] != "12" || !strings.Contains(string(document), sum) {
		t.Errorf("the components are %v", found)
	}
}

func TestProgramRejectsOtherFiles(t *testing.T) {
	for name, path := range map[string]string{"a script": "sbom_test.go", "no file": "nothing"} {
		t.Run(name, func(t *testing.T) {
			if _, err := release.Program(path); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("the error is %v, want one that names %s", err, path)
			}
		})
	}
}
