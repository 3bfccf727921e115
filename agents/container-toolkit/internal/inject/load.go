// Package inject finds the devices that a container requests in CDI specs, and derives the
// changes of its config.json. Load reads the specs; the other functions do no I/O.
//
// If a container names driver capabilities, it gets only the parts of a spec for NVIDIA's driver
// that these capabilities need. The paths in the spec show which parts these are, so this works
// with any spec.
package inject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/text"
)

// maxSpec limits the size of a spec, in bytes. Real specs are smaller.
const maxSpec = 16 << 20

// File is a CDI spec.
type File struct {
	Path string
	// Data is the content of the file.
	Data []byte
	Spec *specs.Spec
	// priority is the position of its folder. A later folder has precedence.
	priority int
}

// Set has the CDI specs of some kinds.
type Set struct {
	Files []*File
	// Problems are the errors of files that cannot be used.
	Problems []error
	dirs     []string
}

// Load reads the CDI specs of the given kinds in the folders dirs. Without kinds it reads all
// specs. Of a JSON file of another kind, it parses only the beginning.
func Load(dirs, kinds []string) *Set {
	s := &Set{dirs: dirs}
	for priority, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				s.Problems = append(s.Problems, fmt.Errorf("list CDI folder: %w", err))
			}
			continue
		}
		for _, e := range entries {
			ext := filepath.Ext(e.Name())
			if e.IsDir() || ext != ".json" && ext != ".yaml" {
				continue
			}
			f, err := load(filepath.Join(dir, e.Name()), kinds)
			if err != nil {
				s.Problems = append(s.Problems, err)
			}
			if f != nil {
				f.priority = priority
				s.Files = append(s.Files, f)
			}
		}
	}
	return s
}

// load reads a spec. It returns nil if the spec has another kind.
func load(path string, kinds []string) (*File, error) {
	data, err := hostfs.ReadFile(path, maxSpec)
	if errors.Is(err, fs.ErrNotExist) {
		// The file was removed after the folder was read.
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read CDI spec: %w", err)
	}
	kind, known := kindOf(data)
	if known && len(kinds) > 0 && !slices.Contains(kinds, kind) {
		return nil, nil
	}
	spec, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("read CDI spec %s: %w", path, err)
	}
	if len(kinds) > 0 && !slices.Contains(kinds, spec.Kind) {
		return nil, nil
	}
	if err := validate(spec); err != nil {
		return nil, fmt.Errorf("check CDI spec %s: %w", path, err)
	}
	return &File{Path: path, Data: data, Spec: spec}, nil
}

// kindOf returns the kind of a spec without parsing all of it. It returns false if only the
// parser can find the kind.
func kindOf(data []byte) (kind string, known bool) {
	if !isJSON(data) {
		return yamlKind(data)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return "", false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return "", false
		}
		if key == "kind" {
			return kind, dec.Decode(&kind) == nil
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return "", false
		}
	}
	return "", false
}

// yamlKind returns the kind of a spec in YAML, if a line contains only the kind.
func yamlKind(data []byte) (string, bool) {
	for line := range bytes.Lines(data) {
		value, ok := bytes.CutPrefix(line, []byte("kind:"))
		if !ok {
			continue
		}
		kind := string(bytes.Trim(bytes.TrimSpace(value), `"'`))
		// The parser handles other forms of a kind.
		return kind, validKind(kind) == nil
	}
	return "", false
}

func isJSON(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
}

// Parse returns the spec in a file. Like the library of CDI, it rejects fields that CDI does not
// define.
func Parse(data []byte) (*specs.Spec, error) {
	var spec specs.Spec
	if isJSON(data) {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&spec); err != nil {
			return nil, err
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return nil, errors.New("it has data after the JSON object")
		}
		return &spec, nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&spec); err != nil {
		return nil, errors.New(text.OneLine(err))
	}
	return &spec, nil
}
