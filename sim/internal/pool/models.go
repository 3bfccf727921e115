package pool

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"outrigger.dev/sim/internal/model"
)

// Models has the data of own models in JSON, by their names. They take precedence over products of the same name, which
// a later version of the simulator can add.
type Models map[string]string

// ParseModels parses the own models of the chart, a mapping in JSON. Mistakes concern only nodes that use the model.
func ParseModels(text string) (Models, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil //nolint:nilnil // no models
	}
	var data map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		return nil, fmt.Errorf("want a mapping of models in JSON: %w", err)
	}
	models := Models{}
	for name, d := range data {
		models[name] = string(d)
	}
	return models, nil
}

// Mistakes returns the mistakes of each model that has some, in the order of the names.
func (m Models) Mistakes() []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if _, err := model.ParseOwn(name, []byte(m[name])); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// hint names the own models after the error of a model that is none of them.
func (m Models) hint(name string) string {
	if len(m) == 0 || m[name] != "" {
		return ""
	}
	return "; the own models are " + strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
