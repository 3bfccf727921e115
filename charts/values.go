package charts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// schemaOf is the schema of the umbrella, which includes the schemas of its dependencies.
type schemaOf struct {
	schema, defaults map[string]any
	compiled         *jsonschema.Schema
	printer          *message.Printer
}

// checkValues validates the values of the umbrella chart, and of its pools, against its schema and the schemas of its
// dependencies, even of disabled ones. It also returns a copy of the values without the mistakes.
func checkValues(c *chart.Chart, values map[string]any) (mistakes Problems, valid map[string]any, err error) {
	m, err := compile(c)
	if err != nil {
		return nil, nil, err
	}
	all, err := jsonForm(values)
	if err != nil {
		return nil, nil, err
	}
	if mistakes, err = m.mistakes(all); err != nil {
		return nil, nil, err
	}
	inPools, err := poolMistakes(m, values, mistakes)
	if err != nil {
		return nil, nil, err
	}
	mistakes, valid = append(mistakes, inPools...), maps.Clone(values)
	for _, p := range mistakes {
		if p.Reason != missing {
			valid, _ = changed(valid, steps(p.Path), nil).(map[string]any)
		}
	}
	return mistakes, valid, nil
}

// compile returns the schema of the umbrella.
func compile(c *chart.Chart) (schemaOf, error) {
	m := schemaOf{printer: message.NewPrinter(language.English)}
	var err error
	if m.schema, m.defaults, err = composed(c); err != nil {
		return m, err
	}
	compiler := jsonschema.NewCompiler()
	if err = compiler.AddResource("values.schema.json", m.schema); err == nil {
		m.compiled, err = compiler.Compile("values.schema.json")
	}
	if err != nil {
		return m, fmt.Errorf("read the schema of chart %s: %w", c.Name(), err)
	}
	return m, nil
}

// mistakes returns the mistakes in values, which have the types of decoded JSON.
func (m schemaOf) mistakes(values map[string]any) (Problems, error) {
	var invalid *jsonschema.ValidationError
	if err := m.compiled.Validate(util.CoalesceTables(values, m.defaults)); !errors.As(err, &invalid) {
		return nil, err
	}
	var found Problems
	_ = errors.As(m.describe(invalid).err(), &found)
	return found, nil
}

// composed returns the schema and the defaults of the umbrella, which include the schemas and
// defaults of its dependencies.
func composed(c *chart.Chart) (schema, defaults map[string]any, err error) {
	if schema, err = decoded(c.Schema); err != nil {
		return nil, nil, fmt.Errorf("read the schema of chart %s: %w", c.Name(), err)
	}
	if defaults, err = jsonForm(c.Values); err != nil {
		return nil, nil, err
	}
	properties := child[map[string]any](schema, "properties")
	for _, dependency := range c.Dependencies() {
		key := dependency.Metadata.Annotations[KeyAnnotation]
		if key == "" { // the library
			continue
		}
		theirs, err := decoded(dependency.Schema)
		if err != nil {
			return nil, nil, fmt.Errorf("read the schema of chart %s: %w", dependency.Name(), err)
		}
		properties[key] = theirs
		values, err := jsonForm(dependency.Values)
		if err != nil {
			return nil, nil, err
		}
		defaults[key] = util.CoalesceTables(child[map[string]any](defaults, key), values)
	}
	return schema, defaults, nil
}

// child returns the map at a key. If it is missing, child adds an empty map.
func child[T ~map[string]any](values T, key string) T {
	found, ok := values[key].(map[string]any)
	if !ok {
		found = map[string]any{}
		values[key] = found
	}
	return found
}

// jsonForm returns a copy of values with the types of decoded JSON, which a schema can validate.
func jsonForm(values map[string]any) (map[string]any, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("read the values: %w", err)
	}
	copied, err := decoded(text)
	if err != nil {
		return nil, fmt.Errorf("read the values: %w", err)
	}
	return copied, nil
}

// decoded parses a JSON object. For null, it returns an empty map.
func decoded(text []byte) (map[string]any, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	switch {
	case value == nil:
		return map[string]any{}, nil
	case !ok:
		return nil, fmt.Errorf("it is a %T, not an object", value)
	}
	return object, nil
}

// missing is the reason of a value that a schema requires.
const missing = "the value is missing"

// describe returns the mistakes in a validation error.
func (m schemaOf) describe(e *jsonschema.ValidationError) Problems {
	at := dotted(e.InstanceLocation)
	switch wrong := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		var found Problems
		for _, key := range wrong.Properties {
			found = append(found, m.unknown(e.InstanceLocation, key))
		}
		return found
	case *kind.Required:
		var found Problems
		for _, key := range wrong.Missing {
			found = append(found, Problem{Path: dotted(append(slices.Clone(e.InstanceLocation), key)), Reason: missing, Instead: "add it"})
		}
		return found
	case *kind.AnyOf:
		return Problems{invalid(at, m.alternatives(e))}
	}
	if len(e.Causes) == 0 {
		// The library prints null as Go does.
		return Problems{invalid(at, strings.ReplaceAll(e.ErrorKind.LocalizedString(m.printer), ", <nil>", ", null"))}
	}
	var found Problems
	for _, cause := range e.Causes {
		found = append(found, m.describe(cause)...)
	}
	return found
}

// invalid returns the problem of a value of the wrong type or content. Without it, the default is valid.
func invalid(path, reason string) Problem {
	return Problem{Path: path, Reason: reason, Instead: "correct it, or remove it", Changes: []Change{{Path: path}}}
}

// alternatives describes a value that does not match any of several schemas.
func (m schemaOf) alternatives(e *jsonschema.ValidationError) string {
	var all []string
	for _, cause := range e.Causes {
		for _, p := range m.describe(cause) {
			all = append(all, p.Reason)
		}
	}
	return strings.Join(slices.Compact(all), ", or ")
}

// unknown reports a key that is not in the schema, and the most similar key.
func (m schemaOf) unknown(location []string, key string) Problem {
	path := dotted(append(slices.Clone(location), key))
	schema := m.schema
	for _, step := range location {
		if _, list := schema["items"]; list {
			schema = child(schema, "items")
		} else {
			schema = child(child(schema, "properties"), step)
		}
	}
	p := Problem{Path: path, Reason: "unknown key", Instead: "remove it", Changes: []Change{{Path: path}}}
	if near := nearest(key, slices.Sorted(maps.Keys(child(schema, "properties")))); near != "" {
		p.Instead = "write " + dotted(append(slices.Clone(location), near)) + ", or remove it"
	}
	return p
}

// dotted returns a location in the form that users write, such as devicePlugin.env[0].name.
func dotted(location []string) string {
	if len(location) == 0 {
		return "values"
	}
	return listIndex.ReplaceAllString(strings.Join(location, "."), "[$1]")
}

// listIndex matches an index in a location.
var listIndex = regexp.MustCompile(`\.(\d+)\b`)

// nearest returns the known key with the fewest edits, ignoring case, or "" if all need many edits.
func nearest(key string, known []string) string {
	best, least := "", 0
	for _, k := range known {
		edits := distance(strings.ToLower(key), strings.ToLower(k))
		if edits <= max(2, len(k)/3) && edits < len(k) && (best == "" || edits < least) {
			best, least = k, edits
		}
	}
	return best
}

// distance returns the number of letters to insert, delete or replace to change a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
