package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"

	goyaml "go.yaml.in/yaml/v2"
	"golang.org/x/sync/errgroup"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// encode returns an object as an item of a list in YAML, with its kind and without secrets.
func encode(o any, apiVersion, kind string, removed removals) ([]byte, error) {
	fields, err := kruntime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", kind, err)
	}
	if apiVersion != "" {
		fields["apiVersion"], fields["kind"] = apiVersion, kind
	}
	removed.object(fields)
	text, err := goyaml.Marshal(fields) // as sigs.k8s.io/yaml does, without its way through JSON
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

// items returns the items of a list that item or kubectl has written. A file with one object has one item. Items are parsed one
// by one, because a parser of YAML needs much memory for a list of thousands of objects.
func items(file []byte) [][]byte {
	var all [][]byte
	var one []byte
	inside, listed := false, false
	for line := range bytes.Lines(file) {
		switch {
		case strings.TrimSpace(string(line)) == "items:" && line[0] != ' ':
			inside, listed = true, true
			continue
		case !inside:
			continue
		case bytes.HasPrefix(line, []byte("- ")):
			if len(one) > 0 {
				all = append(all, one)
			}
			one, line = []byte(" "), line[1:]
		case len(bytes.TrimSpace(line)) > 0 && line[0] != ' ':
			inside = false
			continue
		}
		one = append(one, line...)
	}
	if !listed && !bytes.Contains(file, []byte("\nitems: []")) {
		one = file
	}
	if len(bytes.TrimSpace(one)) > 0 {
		all = append(all, one)
	}
	return all
}

// decode reads the objects of a kind in a list, on all processors. An empty kind means all. With an error, it returns the objects
// before it.
func decode[T any](file []byte, kind string) ([]*T, error) {
	raw := items(file)
	found := make([]*T, len(raw))
	errs := make([]error, len(raw))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, text := range raw {
		group.Go(func() error {
			found[i], errs[i] = decodeOne[T](text, kind)
			return nil
		})
	}
	_ = group.Wait()
	var all []*T
	for i, o := range found {
		if errs[i] != nil {
			return all, errs[i]
		}
		if o != nil {
			all = append(all, o)
		}
	}
	return all, nil
}

// decodeOne reads an object. It returns nil for another kind.
func decodeOne[T any](text []byte, kind string) (*T, error) {
	out, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	var of struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(out, &of); err != nil {
		return nil, err
	}
	if kind != "" && of.Kind != kind {
		return nil, nil // an object of another kind is no error
	}
	o := new(T)
	return o, json.Unmarshal(out, o)
}
