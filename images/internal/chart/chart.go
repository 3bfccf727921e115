// Package chart writes packages of Helm charts as an OCI layout, with the content that "helm push"
// writes to a registry. The media types are defined in Helm's HIP 6.
package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

const (
	configType  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	contentType types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	// refName is the annotation with the name of an image in a layout.
	refName = "org.opencontainers.image.ref.name"
)

// metadata is the part of Chart.yaml that a manifest repeats.
type metadata struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description"`
	Home        string `json:"home"`
}

// Write replaces the OCI layout in dir. packages are files of "helm package". It returns the name
// of each package in the layout, NAME-VERSION.
func Write(dir string, packages []string) ([]string, error) {
	if err := remove(dir); err != nil {
		return nil, fmt.Errorf("replace the layout of charts: %w", err)
	}
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return nil, fmt.Errorf("write the layout of charts: %w", err)
	}
	var names []string
	for _, file := range packages {
		name, err := add(to, file)
		if err != nil {
			return nil, fmt.Errorf("add %s to the layout of charts: %w", file, err)
		}
		names = append(names, name)
	}
	return names, nil
}

// remove removes a layout. It rejects a folder with other files.
func remove(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	isLayout := slices.ContainsFunc(files, func(f fs.DirEntry) bool { return f.Name() == "oci-layout" })
	if len(files) > 0 && !isLayout {
		return fmt.Errorf("%s has files and is no OCI layout: give another folder", dir)
	}
	return os.RemoveAll(dir)
}

// add adds one package.
func add(to layout.Path, file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text, err := chartYAML(content)
	if err != nil {
		return "", err
	}
	config, err := yaml.YAMLToJSON(text)
	if err != nil {
		return "", fmt.Errorf("read Chart.yaml: %w", err)
	}
	var about metadata
	if err := json.Unmarshal(config, &about); err != nil {
		return "", fmt.Errorf("read Chart.yaml: %w", err)
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Annotations: map[string]string{
		"org.opencontainers.image.title": about.Name, "org.opencontainers.image.version": about.Version,
		"org.opencontainers.image.description": about.Description, "org.opencontainers.image.url": about.Home,
	}}
	layer, err := blob(to, contentType, content)
	if err != nil {
		return "", err
	}
	manifest.Layers = []v1.Descriptor{layer}
	if manifest.Config, err = blob(to, configType, config); err != nil {
		return "", err
	}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return "", err
	}
	described, err := blob(to, types.OCIManifestSchema1, raw)
	if err != nil {
		return "", err
	}
	name := about.Name + "-" + about.Version
	described.Annotations = map[string]string{refName: name}
	return name, to.AppendDescriptor(described)
}

// blob writes content and returns its descriptor.
func blob(to layout.Path, media types.MediaType, content []byte) (v1.Descriptor, error) {
	hash, size, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		return v1.Descriptor{}, err
	}
	err = to.WriteBlob(hash, io.NopCloser(bytes.NewReader(content)))
	return v1.Descriptor{MediaType: media, Size: size, Digest: hash}, err
}

// chartYAML returns the file NAME/Chart.yaml of a package.
func chartYAML(content []byte) ([]byte, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	for files := tar.NewReader(unpacked); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it has no Chart.yaml: give packages of helm package")
		}
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		if ok, _ := path.Match("*/Chart.yaml", header.Name); ok {
			return io.ReadAll(files)
		}
	}
}
