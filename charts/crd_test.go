package charts_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
)

// definition is the CRD of ClusterPolicy. It has the values of the chart outrigger between two comments.
const definition = "orchestrator/crds/clusterpolicies.yaml"

// maxDefinition is the maximum size of the CRD. "kubectl apply" stores it in an annotation of at most 256 KiB.
const maxDefinition = 200_000

// The words of OpenAPI that Kubernetes adds.
const (
	preserve = "x-kubernetes-preserve-unknown-fields"
	either   = "x-kubernetes-int-or-string"
)

// TestTheDefinitionHasTheValues compares the spec in the CRD with the schemas of the charts. -update writes it.
func TestTheDefinitionHasTheValues(t *testing.T) {
	const begin = "                # Written from here on by: go test ./... -update, from the schemas of all charts.\n"
	const end = "                # The values end here.\n"
	text, err := os.ReadFile(definition)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no place for the values: %q and %q", definition, begin, end)
	}
	var values strings.Builder
	writeSchemas(t, &values, strings.Repeat(" ", 16), specSchema(t))
	compareGolden(t, definition, before+begin+values.String()+end+after)
	if text, err := os.ReadFile(definition); err != nil || len(text) > maxDefinition {
		t.Errorf("%s has %d bytes, %v; want at most %d", definition, len(text), err, maxDefinition)
	}
}

// ofPolicy are the values below operator that the template of the ClusterPolicy copies.
var ofPolicy = []string{"defaultRuntime", "runtimeClass", "validator"}

// specSchema returns the properties of the spec of a ClusterPolicy as a structural schema.
func specSchema(t *testing.T) map[string]any {
	t.Helper()
	properties := object(composed(t)["properties"])
	// Only Helm uses these values, and the values of the orchestrator's own Deployment.
	for _, name := range []string{"orchestrator", "outrigger-common", "nfd", "node-feature-discovery", "extraObjects", "tags"} {
		delete(properties, name)
	}
	operator := object(object(properties["operator"])["properties"])
	maps.DeleteFunc(operator, func(name string, _ any) bool { return !slices.Contains(ofPolicy, name) })
	for _, property := range properties {
		delete(object(object(property)["properties"]), "global") // Helm adds it to the values of each chart.
	}
	spec := object(structural(map[string]any{"properties": properties})["properties"])
	for _, schema := range spec {
		object(schema)["nullable"] = true // The schema of a chart itself does not say it.
	}
	pools := object(spec["pools"])
	pools["x-kubernetes-list-type"], pools["x-kubernetes-list-map-keys"] = "map", []any{"name"}
	return spec
}

// writeSchemas writes schemas as YAML. A schema without properties takes one line, which keeps the CRD small.
func writeSchemas(t *testing.T, out *strings.Builder, indent string, schemas map[string]any) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		schema := maps.Clone(object(schemas[name]))
		properties := object(schema["properties"])
		delete(schema, "properties")
		text, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		if len(properties) == 0 {
			fmt.Fprintf(out, "%s%s: %s\n", indent, name, text)
			continue
		}
		fmt.Fprintf(out, "%s%s:\n", indent, name)
		for _, key := range slices.Sorted(maps.Keys(schema)) {
			text, err := json.Marshal(schema[key])
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(out, "%s  %s: %s\n", indent, key, text)
		}
		fmt.Fprintf(out, "%s  properties:\n", indent)
		writeSchemas(t, out, indent+"    ", properties)
	}
}

// composed returns the schema of the values of the chart outrigger and of all charts in it.
func composed(t *testing.T) map[string]any {
	t.Helper()
	c, err := charts.LoadFolder("outrigger")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := charts.Composed(c)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// object returns value as an object. A value of another type is an empty object.
func object(value any) map[string]any {
	found, ok := value.(map[string]any)
	if !ok {
		return map[string]any{}
	}
	return found
}

// limits are the words of a JSON schema that a structural schema has as well.
var limits = []string{"pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "minProperties", "required"}

// structural returns a JSON schema as a structural schema of Kubernetes, which keeps unknown keys. A value of
// several types is free, except for a number or a text.
func structural(from map[string]any) map[string]any {
	kinds := types(from)
	nullable := slices.Contains(kinds, "null")
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind == "null" })
	to := map[string]any{}
	if text, _ := from["description"].(string); text != "" {
		to["description"] = text
	} else if title, _ := from["title"].(string); title != "" {
		to["description"] = title + "."
	}
	if nullable || len(kinds) != 1 {
		to["nullable"] = true
	}
	switch {
	case slices.Equal(kinds, []string{"integer", "string"}):
		to[either] = true
		return to
	case len(kinds) != 1:
		to[preserve] = true
		return to
	}
	to["type"] = kinds[0]
	for _, limit := range limits {
		if value, found := from[limit]; found {
			to[limit] = value
		}
	}
	if words, found := from["enum"].([]any); found {
		restrict(to, words)
	}
	switch kinds[0] {
	case "array":
		to["items"] = structural(object(from["items"]))
	case "object":
		fill(to, from)
	}
	return to
}

// restrict limits a structural schema to words. The API server rejects null in a list of words, so a schema that
// permits null has a pattern.
func restrict(to map[string]any, words []any) {
	words = slices.DeleteFunc(slices.Clone(words), func(word any) bool { return word == nil })
	switch {
	case to["nullable"] != true:
		to["enum"] = words
		return
	case to["type"] != "string":
		return
	}
	var patterns, quoted []string
	for _, word := range words {
		patterns = append(patterns, regexp.QuoteMeta(fmt.Sprint(word)))
		quoted = append(quoted, strconv.Quote(fmt.Sprint(word)))
	}
	to["pattern"] = "^(" + strings.Join(patterns, "|") + ")$"
	text, _ := to["description"].(string)
	to["description"] = strings.TrimSpace(text + " Values: " + strings.Join(quoted, ", ") + ".")
}

// fill adds the keys of an object to a structural schema.
func fill(to, from map[string]any) {
	if each, ok := from["additionalProperties"].(map[string]any); ok {
		to["additionalProperties"] = structural(each)
		return
	}
	to[preserve] = true
	properties := map[string]any{}
	for name, property := range object(from["properties"]) {
		properties[name] = structural(object(property))
	}
	if len(properties) > 0 {
		to["properties"] = properties
	}
}

// types returns the types of the values that a JSON schema accepts, sorted. It returns none if the schema does not
// say it.
func types(schema map[string]any) []string {
	found := map[string]bool{}
	switch kind := schema["type"].(type) {
	case string:
		found[kind] = true
	case []any:
		for _, k := range kind {
			found[fmt.Sprint(k)] = true
		}
	}
	if _, ok := schema["properties"]; ok && len(found) == 0 {
		found["object"] = true
	}
	values, _ := schema["enum"].([]any)
	for _, value := range values {
		found[typeOf(value)] = true
	}
	alternatives, _ := schema["anyOf"].([]any)
	for _, alternative := range alternatives {
		for _, kind := range types(object(alternative)) {
			found[kind] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// typeOf returns the type of a JSON value.
func typeOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number, float64:
		return "integer"
	}
	return "string"
}

func TestStructuralSchemas(t *testing.T) {
	for name, c := range map[string]struct{ from, want string }{
		"a text or null":                 {`{type: [string, "null"], pattern: ^a}`, `{type: string, nullable: true, pattern: ^a}`},
		"words without a type":           {`{enum: [a, b, null]}`, `{type: string, nullable: true, pattern: ^(a|b)$, description: 'Values: "a", "b".'}`},
		"words":                          {`{enum: [a, b]}`, `{type: string, enum: [a, b]}`},
		"a number or a text":             {`{type: [string, integer, "null"], minimum: 0}`, `{x-kubernetes-int-or-string: true, nullable: true}`},
		"a number or a text, by anyOf":   {`{anyOf: [{type: integer}, {enum: [all]}]}`, `{x-kubernetes-int-or-string: true, nullable: true}`},
		"an object or a text":            {`{type: [object, string], properties: {a: {type: string}}}`, `{x-kubernetes-preserve-unknown-fields: true, nullable: true}`},
		"an object that rejects keys":    {`{type: object, additionalProperties: false, properties: {a: {type: string}}}`, `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}`},
		"an object with any keys":        {`{type: object}`, `{type: object, x-kubernetes-preserve-unknown-fields: true}`},
		"an object of texts":             {`{type: object, additionalProperties: {type: string}}`, `{type: object, additionalProperties: {type: string}}`},
		"a list of unknown things":       {`{type: array, uniqueItems: true}`, `{type: array, items: {x-kubernetes-preserve-unknown-fields: true, nullable: true}}`},
		"the values of another chart":    {`{type: object, title: Values of a}`, `{type: object, description: Values of a., x-kubernetes-preserve-unknown-fields: true}`},
		"a rule that Kubernetes has not": {`{type: object, propertyNames: {const: a}}`, `{type: object, x-kubernetes-preserve-unknown-fields: true}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := yaml.Marshal(structural(valuesIn(t, c.from)))
			if err != nil {
				t.Fatal(err)
			}
			want, err := yaml.Marshal(valuesIn(t, c.want))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// valuesIn parses YAML.
func valuesIn(t *testing.T, text string) map[string]any {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}
