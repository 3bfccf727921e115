package charts_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestThePolicyOfKeysHasAllKeys compares the admission policy for ClusterPolicies with the schemas of the charts.
// -update writes it.
func TestThePolicyOfKeysHasAllKeys(t *testing.T) {
	k := &keys{}
	k.object("spec", "dyn(object)", "spec", "", composed(t))
	var out strings.Builder
	out.WriteString("{{- /* Written by: go test ./... -update, from the schemas of all charts: the keys of a ClusterPolicy, in CEL. */ -}}\n")
	out.WriteString("{{- define \"orchestrator.keys\" -}}\n")
	for _, v := range k.variables {
		fmt.Fprintf(&out, "- name: %s\n  expression: >-\n    %s\n", v.name, v.expression)
	}
	out.WriteString("- name: unknown\n  expression: >-\n    [")
	out.WriteString(strings.Join(k.unknown, ",\n    "))
	out.WriteString("].filter(l, l.size() > 0).map(l, l.join(', '))\n{{- end -}}\n")
	compareGolden(t, "orchestrator/templates/_keys.tpl", out.String())
}

// keys collects CEL expressions.
type keys struct {
	// variables are the objects that reject unknown keys. Each follows from a variable before it.
	variables []struct{ name, expression string }
	// unknown has an expression for each of them: a list of the unknown keys.
	unknown []string
}

// notInNames matches what the name of a variable in CEL cannot have.
var notInNames = regexp.MustCompile(`\W`)

// object adds an object at a key of parent. Its path is at, as users write it.
func (k *keys) object(name, parent, key, at string, schema map[string]any) {
	k.variables = append(k.variables, struct{ name, expression string }{
		name, fmt.Sprintf("%s[?'%s'].optMap(x, type(x) == map ? x : dyn({})).orValue(dyn({}))", parent, key),
	})
	properties := object(schema["properties"])
	if schema["additionalProperties"] == false {
		k.unknown = append(k.unknown, "variables."+name+unknownKeys(at, properties))
	}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		below := object(properties[key])
		path := strings.TrimPrefix(at+"."+key, ".")
		items := object(below["items"])
		switch {
		case len(object(below["properties"])) > 0:
			k.object(notInNames.ReplaceAllString(name+"_"+key, "_"), "variables."+name, key, path, below)
		case items["additionalProperties"] == false:
			k.unknown = append(k.unknown, fmt.Sprintf(
				"variables.%s[?'%s'].optMap(l, type(l) == list ? l : dyn([])).orValue(dyn([])).filter(i, type(i) == map).map(i, i%s.join(', ')).filter(s, s != '')",
				name, key, unknownKeys(path+"[]", object(items["properties"]))))
		}
	}
}

// unknownKeys returns an expression that lists the other keys of an object with their path.
func unknownKeys(at string, properties map[string]any) string {
	known, err := json.Marshal(slices.Sorted(maps.Keys(properties)))
	if err != nil {
		panic(err) // A list of texts has a JSON form.
	}
	prefix := ""
	if at != "" {
		prefix = at + "."
	}
	return fmt.Sprintf(".filter(k, !(k in %s)).map(k, '%s' + k)", strings.ReplaceAll(string(known), `"`, "'"), prefix)
}
