package oci_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"outrigger.dev/images/internal/oci"
)

// of returns an image for arch.
func of(t *testing.T, arch string) v1.Image {
	t.Helper()
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestLayoutNamesOneIndexOfAllPlatforms(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "agent")
	if err := oci.WriteLayout(dir, []v1.Image{of(t, "amd64"), of(t, "arm64")}, "26.11.0-debian12", "26.11.0"); err != nil {
		t.Fatal(err)
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	tags, err := top.IndexManifest()
	if err != nil || len(tags.Manifests) != 2 || tags.Manifests[0].Digest != tags.Manifests[1].Digest {
		t.Fatalf("the layout has %+v, %v; want two names of one index", tags, err)
	}
	var names []string
	for _, tag := range tags.Manifests {
		names = append(names, tag.Annotations["org.opencontainers.image.ref.name"])
	}
	if !slices.Equal(names, []string{"26.11.0-debian12", "26.11.0"}) {
		t.Errorf("the names are %q", names)
	}
	index, err := top.ImageIndex(tags.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	described, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		image, err := index.Image(described.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil || config.Architecture != arch || described.Manifests[i].Platform.String() != "linux/"+arch {
			t.Errorf("image %d is for %s and %+v, want %s: %v", i, described.Manifests[i].Platform, config, arch, err)
		}
	}
}

// TestIndexHasTheBytesOfOtherTools compares with what skopeo 1.9 writes into a registry
// for this index. It fails to copy another one with "--preserve-digests".
func TestIndexHasTheBytesOfOtherTools(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "agent")
	amd64, arm64 := of(t, "amd64"), of(t, "arm64")
	if err := oci.WriteLayout(dir, []v1.Image{amd64, arm64}, "26.11.0"); err != nil {
		t.Fatal(err)
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	tags, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	got, err := layout.Path(dir).Bytes(tags.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	describe := func(image v1.Image, arch string) string {
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := image.RawManifest()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"%s","size":%d,"platform":{"architecture":"%s","os":"linux"}}`,
			digest, len(manifest), arch)
	}
	want := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[` +
		describe(amd64, "amd64") + "," + describe(arm64, "arm64") + "]}"
	if string(got) != want {
		t.Errorf("the index is\n%s, want\n%s", got, want)
	}
}
