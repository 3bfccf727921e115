package cdi

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"regexp"

	"outrigger.dev/pkg/hostfs"
)

// maxSpec is the most bytes that are read of a file, because the file might not be a spec.
const maxSpec = 4 << 20

// yamlKind matches the line with the kind in a spec that is written as YAML in block style, as
// NVIDIA's tools write it. A parser would read the whole file and need memory of a hundred times
// its size.
var yamlKind = regexp.MustCompile(`^kind:[ \t]*["']?([^"'\s]+)`)

// kindOf returns the kind of the spec in a file, or "" if a runtime would not read the file as a
// spec.
func kindOf(path string) string {
	ext := filepath.Ext(path)
	if ext != ".json" && ext != ".yaml" {
		return ""
	}
	f, err := hostfs.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > maxSpec {
		return ""
	}
	r := bufio.NewReader(io.LimitReader(f, maxSpec))
	if first, err := r.Peek(1); err != nil || first[0] == '{' {
		return jsonKind(r)
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if m := yamlKind.FindSubmatch(lines.Bytes()); m != nil {
			return string(m[1])
		}
	}
	return ""
}

// jsonKind returns the kind of a spec in JSON, or "" if the JSON is not complete.
func jsonKind(r io.Reader) string {
	var spec struct {
		Kind string `json:"kind"`
	}
	dec := json.NewDecoder(r)
	if err := dec.Decode(&spec); err != nil {
		return ""
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return ""
	}
	return spec.Kind
}
