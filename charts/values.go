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

// checkValues validates the values of the umbrella chart against its schema and the schemas of its
// dependencies, even of disabled ones. Its error has one line for each mistake.
func checkValues(c *chart.Chart, values map[string]any) error {
	schema, defaults, err := composed(c)
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("values.schema.json", schema); err != nil {
		return fmt.Errorf("read the schema of chart %s: %w", c.Name(), err)
	}
	compiled, err := compiler.Compile("values.schema.json")
	if err != nil {
		return fmt.Errorf("read the schema of chart %s: %w", c.Name(), err)
	}
	all, err := jsonForm(values)
	if err != nil {
		return err
	}
	var invalid *jsonschema.ValidationError
	if err := compiled.Validate(util.CoalesceTables(all, defaults)); !errors.As(err, &invalid) {
		return err
	}
	m := mistakes{schema: schema, printer: message.NewPrinter(language.English)}
	lines := m.describe(invalid)
	slices.Sort(lines)
	return errors.New(strings.Join(slices.Compact(lines), "\n"))
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

// mistakes describes invalid values.
type mistakes struct {
	schema  map[string]any
	printer *message.Printer
}

// describe returns a line for each mistake in a validation error.
func (m mistakes) describe(e *jsonschema.ValidationError) []string {
	switch wrong := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		var lines []string
		for _, key := range wrong.Properties {
			lines = append(lines, m.unknown(e.InstanceLocation, key))
		}
		return lines
	case *kind.AnyOf:
		return []string{dotted(e.InstanceLocation) + ": " + m.alternatives(e)}
	}
	if len(e.Causes) == 0 {
		// The library prints null as Go does.
		text := strings.ReplaceAll(e.ErrorKind.LocalizedString(m.printer), ", <nil>", ", null")
		return []string{dotted(e.InstanceLocation) + ": " + text}
	}
	var lines []string
	for _, cause := range e.Causes {
		lines = append(lines, m.describe(cause)...)
	}
	return lines
}

// alternatives describes a value that does not match any of several schemas.
func (m mistakes) alternatives(e *jsonschema.ValidationError) string {
	var all []string
	for _, cause := range e.Causes {
		for _, line := range m.describe(cause) {
			_, text, _ := strings.Cut(line, ": ")
			all = append(all, text)
		}
	}
	return strings.Join(slices.Compact(all), "; or ")
}

// unknown reports a key that is not in the schema, and the most similar key.
func (m mistakes) unknown(location []string, key string) string {
	line := dotted(append(slices.Clone(location), key)) + ": unknown key"
	schema := m.schema
	for _, step := range location {
		if _, list := schema["items"]; list {
			schema = child(schema, "items")
		} else {
			schema = child(child(schema, "properties"), step)
		}
	}
	known := slices.Sorted(maps.Keys(child(schema, "properties")))
	if near := nearest(key, known); near != "" {
		line += ", did you mean " + dotted(append(slices.Clone(location), near)) + "?"
	}
	return line
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

// failure matches the engine's prefix of the message of a check in a template.
var failure = regexp.MustCompile(`^execution error at \((\S+?):\S*\): `)

// rejectingChart matches the template of a dependency that rejected values. The group is the key of
// the agent.
var rejectingChart = regexp.MustCompile(`^` + umbrella + `/charts/(\w+)/`)

// fullPath matches messages that already begin with the whole path of a value.
var fullPath = regexp.MustCompile(`^(global|devicePlugin\.config)\.`)

// rejection returns the message of a check in a template that rejected values. It adds the key of
// the agent, which the agent's chart does not know.
func rejection(err error, keys map[string]string) error {
	found := failure.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	text := err.Error()[len(found[0]):]
	key := keys[stageOf(found[1])]
	if of := rejectingChart.FindStringSubmatch(found[1]); of != nil {
		key = of[1]
	}
	if key != "" && !fullPath.MatchString(text) && !strings.HasPrefix(text, key+".") {
		text = key + "." + text
	}
	return errors.New(text)
}
