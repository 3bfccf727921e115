// Package oci writes an image as an archive for containerd (an OCI layout with the image's name)
// and for "docker load" (manifest.json).
package oci

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"path"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// refName is the annotation with the name of an image in a layout.
const refName = "org.opencontainers.image.ref.name"

// Write writes image, with one or more names, to w. Equal images give equal bytes.
func Write(w io.Writer, image v1.Image, refs ...name.Tag) error {
	a := archive{w: tar.NewWriter(w), written: map[v1.Hash]bool{}}
	if err := a.write(image, refs); err != nil {
		return fmt.Errorf("write archive of %s: %w", refs[0], err)
	}
	if err := a.w.Close(); err != nil {
		return fmt.Errorf("write archive of %s: %w", refs[0], err)
	}
	return nil
}

type archive struct {
	w       *tar.Writer
	written map[v1.Hash]bool
}

func (a archive) write(image v1.Image, refs []name.Tag) error {
	index, err := index(image, refs)
	if err != nil {
		return err
	}
	if err := a.json("oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}); err != nil {
		return err
	}
	if err := a.json("index.json", index); err != nil {
		return err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	if err := a.file(blob(index.Manifests[0].Digest), manifest); err != nil {
		return err
	}
	docker, err := a.content(image)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		docker.RepoTags = append(docker.RepoTags, ref.String())
	}
	return a.json("manifest.json", tarball.Manifest{docker})
}

// content writes the configuration and the layers, and returns Docker's manifest.
func (a archive) content(image v1.Image) (tarball.Descriptor, error) {
	var d tarball.Descriptor
	config, err := image.RawConfigFile()
	if err != nil {
		return d, err
	}
	digest, err := image.ConfigName()
	if err != nil {
		return d, err
	}
	d.Config = blob(digest)
	if err := a.file(d.Config, config); err != nil {
		return d, err
	}
	layers, err := image.Layers()
	if err != nil {
		return d, err
	}
	for _, layer := range layers {
		file, err := a.layer(layer)
		if err != nil {
			return d, err
		}
		d.Layers = append(d.Layers, file)
	}
	return d, nil
}

// layer writes a layer once and returns its name in the archive.
func (a archive) layer(layer v1.Layer) (string, error) {
	digest, err := layer.Digest()
	if err != nil {
		return "", err
	}
	file := blob(digest)
	if a.written[digest] {
		return file, nil
	}
	a.written[digest] = true
	r, err := layer.Compressed()
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	if err := r.Close(); err != nil {
		return "", err
	}
	return file, a.file(file, content)
}

func (a archive) json(file string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return a.file(file, content)
}

func (a archive) file(file string, content []byte) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: file, Mode: 0o644, Size: int64(len(content))}
	if err := a.w.WriteHeader(header); err != nil {
		return err
	}
	_, err := a.w.Write(content)
	return err
}

// index returns an index with the image's names, in annotations of containerd and of OCI.
func index(image v1.Image, refs []name.Tag) (v1.IndexManifest, error) {
	digest, err := image.Digest()
	if err != nil {
		return v1.IndexManifest{}, err
	}
	size, err := image.Size()
	if err != nil {
		return v1.IndexManifest{}, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return v1.IndexManifest{}, err
	}
	result := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for _, ref := range refs {
		result.Manifests = append(result.Manifests, v1.Descriptor{
			MediaType: types.OCIManifestSchema1,
			Digest:    digest,
			Size:      size,
			Platform:  &v1.Platform{OS: config.OS, Architecture: config.Architecture},
			Annotations: map[string]string{
				"io.containerd.image.name": ref.String(),
				refName:                    ref.TagStr(),
			},
		})
	}
	return result, nil
}

func blob(digest v1.Hash) string {
	return path.Join("blobs", digest.Algorithm, digest.Hex)
}
