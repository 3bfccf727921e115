// Package cdifile encodes CDI specs as JSON or as YAML, like nvidia-ctk.
package cdifile

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"

	"go.yaml.in/yaml/v3"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/pkg/cdi"
)

// Format is the format of a file.
type Format string

// The formats of CDI specs.
const (
	JSON Format = "json"
	YAML Format = "yaml"
)

// FormatOf returns the format of the file at path. The extension of the file decides. If the
// extension is not known, name is the format. An empty name means YAML.
func FormatOf(path, name string) (Format, error) {
	format := cmp.Or(Format(name), YAML)
	if format != JSON && format != YAML {
		return "", fmt.Errorf("flag --format: %q: must be json or yaml", name)
	}
	switch filepath.Ext(path) {
	case ".json":
		return JSON, nil
	case ".yaml", ".yml":
		return YAML, nil
	}
	return format, nil
}

// WithExtension returns path with the extension of the format, unless path has an extension that
// CDI reads.
func WithExtension(path string, f Format) string {
	switch filepath.Ext(path) {
	case ".json", ".yaml", ".yml":
		return path
	}
	return path + "." + string(f)
}

// Encode returns the spec in a format.
func Encode(spec *specs.Spec, f Format) ([]byte, error) {
	if f == JSON {
		return cdi.Encode(spec)
	}
	var out bytes.Buffer
	out.WriteString("---\n")
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(spec); err != nil {
		return nil, fmt.Errorf("encode CDI spec %s: %w", spec.Kind, err)
	}
	return out.Bytes(), nil
}
