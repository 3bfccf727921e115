package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// encode returns an object as an item of a list in YAML, with its kind and without secrets.
func encode(o any, apiVersion, kind string, removed removals) ([]byte, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", kind, err)
	}
	if apiVersion != "" {
		fields["apiVersion"], fields["kind"] = apiVersion, kind
	}
	removed.object(fields)
	text, err := yaml.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", kind, err)
	}
	return item(text), nil
}

// item returns YAML as an item of a list.
func item(text []byte) []byte {
	var b bytes.Buffer
	first := true
	for line := range bytes.Lines(text) {
		switch {
		case first:
			b.WriteString("- ")
		case len(bytes.TrimSpace(line)) > 0:
			b.WriteString("  ")
		}
		b.Write(line)
		first = false
	}
	return b.Bytes()
}

const listHead = "apiVersion: v1\nkind: List\nitems:\n"

// items returns the items of a list that item or kubectl has written, as JSON. A file with one object has one item. Items are
// read one by one, because a parser of YAML needs much memory for a list of thousands of objects.
func items(file []byte) ([]json.RawMessage, error) {
	var all []json.RawMessage
	var one bytes.Buffer
	inside, listed := false, false
	flush := func() error {
		if one.Len() == 0 {
			return nil
		}
		out, err := yaml.YAMLToJSON(one.Bytes())
		if err != nil {
			return err
		}
		one.Reset()
		all = append(all, out)
		return nil
	}
	for line := range bytes.Lines(file) {
		switch {
		case strings.TrimSpace(string(line)) == "items:" && line[0] != ' ':
			inside, listed = true, true
			continue
		case !inside:
			continue
		case bytes.HasPrefix(line, []byte("- ")):
			if err := flush(); err != nil {
				return nil, err
			}
			one.WriteByte(' ')
			line = line[1:]
		case len(bytes.TrimSpace(line)) > 0 && line[0] != ' ':
			inside = false
			continue
		}
		one.Write(line)
	}
	if !listed && len(bytes.TrimSpace(file)) > 0 && !bytes.Contains(file, []byte("\nitems: []")) {
		one.Write(file)
	}
	err := flush()
	return all, err
}

// decode reads the objects of a kind in a list. It ignores other kinds. With an error, it returns the objects before it.
func decode[T any](file []byte, kind string) ([]*T, error) {
	raw, err := items(file)
	if err != nil {
		return nil, err
	}
	var all []*T
	for _, text := range raw {
		var of struct {
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal(text, &of); err != nil {
			return all, err
		}
		if kind != "" && of.Kind != kind {
			continue
		}
		o := new(T)
		if err := json.Unmarshal(text, o); err != nil {
			return all, err
		}
		all = append(all, o)
	}
	return all, nil
}
