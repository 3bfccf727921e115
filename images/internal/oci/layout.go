package oci

import (
	"bytes"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	spec "github.com/opencontainers/image-spec/specs-go/v1"
)

// WriteLayout writes an image of several platforms as an OCI layout to dir, a new folder. All tags
// refer to the same index, which lists the image of each platform.
func WriteLayout(dir string, images []v1.Image, tags ...string) error {
	index, err := indexOf(images)
	if err != nil {
		return fmt.Errorf("write layout %s: %w", dir, err)
	}
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write layout %s: %w", dir, err)
	}
	for _, tag := range tags {
		if err := to.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: tag})); err != nil {
			return fmt.Errorf("write layout %s: %w", dir, err)
		}
	}
	return nil
}

// canonical is an index with the bytes that the Go types of the OCI specification produce. skopeo
// copies an index with other bytes under another digest.
type canonical struct {
	contents
	raw []byte
}

// contents is v1.ImageIndex under another name, because an embedded ImageIndex would hide the method
// ImageIndex.
type contents interface{ v1.ImageIndex }

func (c canonical) RawManifest() ([]byte, error) { return c.raw, nil }

func (c canonical) Size() (int64, error) { return int64(len(c.raw)), nil }

func (c canonical) Digest() (v1.Hash, error) {
	hash, _, err := v1.SHA256(bytes.NewReader(c.raw))
	return hash, err
}

// indexOf returns the index of the images.
func indexOf(images []v1.Image) (v1.ImageIndex, error) {
	all := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	described := spec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: spec.MediaTypeImageIndex}
	for _, image := range images {
		manifest, err := image.RawManifest()
		if err != nil {
			return nil, err
		}
		config, err := image.ConfigFile()
		if err != nil {
			return nil, err
		}
		all = mutate.AppendManifests(all, mutate.IndexAddendum{Add: image})
		described.Manifests = append(described.Manifests, spec.Descriptor{
			MediaType: spec.MediaTypeImageManifest, Digest: digest.FromBytes(manifest), Size: int64(len(manifest)),
			Platform: &spec.Platform{Architecture: config.Architecture, OS: config.OS},
		})
	}
	raw, err := json.Marshal(described)
	return canonical{all, raw}, err
}
