// Package schemas holds the schemas of all kinds of Kubernetes, for each minor version that the
// charts support, and writes them in the format of kubeconform.
//
// The schemas are made from the OpenAPI definitions in the Go module k8s.io/kubernetes, at the
// versions in the names of the files in testdata.
package schemas

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
)

//go:generate go run ./internal/generate v1.30.14 v1.31.14 v1.32.13 v1.33.9 v1.34.4 v1.35.4 v1.36.3 v1.37.1

//go:embed testdata/*.json.gz
var files embed.FS

const suffix = ".json.gz"

// Schema is an OpenAPI or JSON schema.
type Schema = map[string]any

// Definitions are the schemas of a version of Kubernetes, by the names in their references.
type Definitions map[string]Schema

// Versions returns the available versions of Kubernetes, such as v1.37.1, the oldest first.
func Versions() ([]string, error) {
	entries, err := files.ReadDir("testdata")
	if err != nil {
		return nil, fmt.Errorf("list schemas: %w", err)
	}
	versions := make([]string, len(entries))
	for i, entry := range entries {
		versions[i] = strings.TrimSuffix(entry.Name(), suffix)
	}
	return versions, nil
}

// FileName returns the name of the file with the schemas of a version.
func FileName(version string) string { return version + suffix }

// Load returns the definitions of a version of Kubernetes.
func Load(version string) (Definitions, error) {
	packed, err := files.ReadFile(path.Join("testdata", FileName(version)))
	if err != nil {
		return nil, fmt.Errorf("read schemas of Kubernetes %s: %w", version, err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack schemas of Kubernetes %s: %w", version, err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		return nil, fmt.Errorf("unpack schemas of Kubernetes %s: %w", version, err)
	}
	var definitions Definitions
	if err := json.Unmarshal(text, &definitions); err != nil {
		return nil, fmt.Errorf("parse schemas of Kubernetes %s: %w", version, err)
	}
	return definitions, nil
}

// Reduce returns the definitions of swagger.json, the OpenAPI document in Kubernetes' module,
// without the keys that validation does not use.
func Reduce(swagger []byte) (Definitions, error) {
	var document struct {
		Definitions Definitions `json:"definitions"`
	}
	if err := json.Unmarshal(swagger, &document); err != nil {
		return nil, fmt.Errorf("parse OpenAPI document: %w", err)
	}
	if len(document.Definitions) == 0 {
		return nil, fmt.Errorf("parse OpenAPI document: it has no definitions")
	}
	for _, definition := range document.Definitions {
		each(definition, func(s Schema) {
			for key := range s {
				if key == "description" || key == "default" || strings.HasPrefix(key, "x-kubernetes-") && key != kinds {
					delete(s, key)
				}
			}
		})
	}
	return document.Definitions, nil
}

// Pack writes definitions as a file of testdata.
func (d Definitions) Pack(w io.Writer) error {
	text, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("write schemas: %w", err)
	}
	packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("pack schemas: %w", err)
	}
	if _, err := packed.Write(text); err != nil {
		return fmt.Errorf("pack schemas: %w", err)
	}
	if err := packed.Close(); err != nil {
		return fmt.Errorf("pack schemas: %w", err)
	}
	return nil
}

// each calls visit for a schema, and for each schema that it contains.
func each(s Schema, visit func(Schema)) {
	visit(s)
	if properties, ok := s["properties"].(Schema); ok {
		for _, property := range properties {
			if schema, ok := property.(Schema); ok {
				each(schema, visit)
			}
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if schema, ok := s[key].(Schema); ok {
			each(schema, visit)
		}
	}
}
