package schemas

import (
	"fmt"
	"maps"

	"sigs.k8s.io/yaml"
)

// objectMeta is the definition of an object's metadata.
const objectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// Define adds the kind that a CustomResourceDefinition in YAML defines.
func (d Definitions) Define(text []byte) error {
	var definition struct {
		Spec struct {
			Group string `json:"group"`
			Names struct {
				Kind string `json:"kind"`
			} `json:"names"`
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					OpenAPI Schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return fmt.Errorf("parse CustomResourceDefinition: %w", err)
	}
	spec := definition.Spec
	for _, version := range spec.Versions {
		schema := version.Schema.OpenAPI
		if schema == nil {
			return fmt.Errorf("read CustomResourceDefinition: version %s of %s has no schema", version.Name, spec.Names.Kind)
		}
		// An API server adds these properties to each kind.
		properties := Schema{"apiVersion": Schema{"type": "string"}, "kind": Schema{"type": "string"}}
		if own, ok := schema["properties"].(Schema); ok {
			maps.Copy(properties, own)
		}
		properties["metadata"] = Schema{"$ref": prefix + objectMeta}
		schema["properties"] = properties
		schema[kinds] = []any{Schema{"group": spec.Group, "version": version.Name, "kind": spec.Names.Kind}}
		d[spec.Group+"."+version.Name+"."+spec.Names.Kind] = schema
	}
	return nil
}
