package model_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/yaml"

	"outrigger.dev/sim/internal/model"
)

// schema is a part of the schema of the chart gpu-sim.
type schema struct {
	Properties           map[string]schema `json:"properties"`
	AdditionalProperties json.RawMessage   `json:"additionalProperties"`
	Items                *schema           `json:"items"`
}

func ofTheChart(t *testing.T) schema {
	t.Helper()
	text, err := os.ReadFile("../../../charts/gpu-sim/values.schema.json")
	assert.NilError(t, err)
	var values, one schema
	assert.NilError(t, json.Unmarshal(text, &values))
	assert.NilError(t, json.Unmarshal(values.Properties["models"].AdditionalProperties, &one))
	return one
}

// example returns a value with all keys, which have no values.
func (s schema) example() any {
	switch {
	case s.Items != nil && s.Items.Properties != nil:
		return []any{s.Items.example()}
	case s.Properties == nil:
		return nil
	}
	out := map[string]any{}
	for key, of := range s.Properties {
		out[key] = of.example()
	}
	return out
}

// lacks returns the paths of a value that the schema does not have.
func (s schema) lacks(path string, v any) []string {
	var missing []string
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			of, ok := s.Properties[key]
			if !ok {
				missing = append(missing, path+"."+key)
				continue
			}
			missing = append(missing, of.lacks(path+"."+key, inner)...)
		}
	case []any:
		for _, entry := range v {
			missing = append(missing, s.Items.lacks(path+"[]", entry)...)
		}
	}
	return missing
}

// The schema of the chart and the data files have the same keys.
func TestTheChartHasTheKeysOfAModel(t *testing.T) {
	s := ofTheChart(t)
	data, err := json.Marshal(s.example())
	assert.NilError(t, err)
	_, err = model.ParseOwn("mine", data)
	assert.ErrorContains(t, err, "models.mine.product: is missing")
	assert.Assert(t, !strings.Contains(err.Error(), "unknown key"), "%v", err)
	for _, name := range model.Names() {
		data, err := model.Data(name)
		assert.NilError(t, err)
		var file map[string]any
		assert.NilError(t, yaml.Unmarshal(data, &file))
		missing := slices.DeleteFunc(s.lacks("", file), func(key string) bool { return key == ".name" || key == ".aliases" })
		assert.Equal(t, len(missing), 0, "%s: %v", name, missing)
	}
}
