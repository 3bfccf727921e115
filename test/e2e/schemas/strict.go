package schemas

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// kinds is the key of a definition's list of kinds.
const kinds = "x-kubernetes-group-version-kind"

// Template is the template of a schema's path in the folder that Write fills, in the form that
// kubeconform expects.
const Template = "{{ .Group }}_{{ .ResourceAPIVersion }}_{{ .ResourceKind }}.json"

// quantity is the definition of an amount, such as of memory. It has the type string, but a
// manifest may have a number.
const quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity"

// Write writes a schema for each kind. The schemas reject unknown fields. Write changes d.
func (d Definitions) Write(dir string) error {
	for name, definition := range d {
		each(definition, strict)
		if name == quantity {
			definition["type"] = []any{"string", "number"}
		}
	}
	for name, definition := range d {
		list, _ := definition[kinds].([]any)
		for _, entry := range list {
			kind, err := parse(entry)
			if err != nil {
				return fmt.Errorf("write schema %s: %w", name, err)
			}
			if err := d.write(dir, name, kind); err != nil {
				return fmt.Errorf("write schema %s: %w", name, err)
			}
		}
	}
	return nil
}

// strict changes a schema so that it rejects unknown fields.
func strict(s Schema) {
	if s["format"] == "int-or-string" || s["x-kubernetes-int-or-string"] == true {
		s["type"] = []any{"string", "integer"}
	}
	if kind, ok := s["type"].(string); ok && s["nullable"] == true {
		s["type"] = []any{kind, "null"}
	}
	_, fields := s["properties"]
	_, other := s["additionalProperties"]
	if fields && !other && s["x-kubernetes-preserve-unknown-fields"] != true {
		s["additionalProperties"] = false
	}
}

// groupVersionKind identifies a kind.
type groupVersionKind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

func parse(entry any) (groupVersionKind, error) {
	var kind groupVersionKind
	text, err := json.Marshal(entry)
	if err == nil {
		err = json.Unmarshal(text, &kind)
	}
	if err != nil {
		return kind, fmt.Errorf("parse kind: %w", err)
	}
	return kind, nil
}

func (k groupVersionKind) apiVersion() string {
	return strings.TrimPrefix(k.Group+"/"+k.Version, "/")
}

// fileName returns the file name that kubeconform derives from Template.
func (k groupVersionKind) fileName() string {
	group := k.Group
	if group == "" {
		group = k.Version
	}
	return fmt.Sprintf("%s_%s_%s.json", group, k.Version, strings.ToLower(k.Kind))
}

// write writes the schema of one kind, with all definitions in its references.
func (d Definitions) write(dir, name string, kind groupVersionKind) error {
	used := Definitions{}
	d.use(name, used)
	text, err := json.Marshal(Schema{
		"allOf":       []any{Schema{"$ref": prefix + name}},
		"definitions": used,
		"required":    []any{"apiVersion", "kind"},
		"properties": Schema{
			"apiVersion": Schema{"enum": []any{kind.apiVersion()}},
			"kind":       Schema{"enum": []any{kind.Kind}},
		},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, kind.fileName()), text, 0o644)
}

// prefix is the beginning of each reference to a definition.
const prefix = "#/definitions/"

// use adds a definition to used, with all definitions in its references.
func (d Definitions) use(name string, used Definitions) {
	if _, ok := used[name]; ok {
		return
	}
	used[name] = d[name]
	each(d[name], func(s Schema) {
		if ref, ok := s["$ref"].(string); ok {
			d.use(strings.TrimPrefix(ref, prefix), used)
		}
	})
}
