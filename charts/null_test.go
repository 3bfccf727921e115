package charts_test

import (
	"slices"
	"strings"
	"testing"
)

// TestNullIsNamed sets groups of values to null, as a file does whose author has commented out all that is
// below a key. Helm then removes their defaults. The chart does not need them, or its error names
// the group; and no policy, role or account is left out without a word.
func TestNullIsNamed(t *testing.T) {
	for _, chart := range names(t) {
		if chart == "outrigger" { // it takes much longer to render; its rejections.yaml has some
			continue
		}
		want, err := release{chart: chart}.render()
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range readSchema(t, chart).groups(valuesOf(t, chart+"/values.yaml")) {
			last, name := path[len(path)-1], strings.Join(path, ".")
			value := map[string]any{last: nil}
			for _, key := range slices.Backward(path[:len(path)-1]) {
				value = map[string]any{key: value}
			}
			got, err := release{chart: chart, values: value}.render()
			switch {
			case err != nil && !strings.Contains(err.Error(), "'"+last+"'"):
				t.Errorf("%s: %s: null: the error does not name the value; require it in values.schema.json: %.300v", chart, name, err)
			case err == nil && got != want && last == "create":
				t.Errorf("%s: %s: null leaves something out without a word", chart, name)
			}
		}
	}
}

// groups returns the paths of groups of values, and of those named create, below s.
func (s schema) groups(values map[string]any) [][]string {
	var paths [][]string
	for key, value := range values {
		below, isMap := value.(map[string]any)
		known := s.Properties[key]
		if isMap && len(known.Properties) > 0 {
			paths = append(paths, []string{key})
			for _, path := range known.groups(below) {
				paths = append(paths, append([]string{key}, path...))
			}
		} else if key == "create" {
			paths = append(paths, []string{key})
		}
	}
	return paths
}
