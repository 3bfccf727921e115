package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect" // DeepEqual: the values have slices, maps or pointers

	"outrigger.dev/agents/container-toolkit/internal/rawjson"
)

// dockerConfig is Docker's default config file.
const dockerConfig = "/etc/docker/daemon.json"

// bom returns the byte order mark, which dockerd accepts before the config.
func bom() []byte { return []byte("\ufeff") }

// editDocker returns daemon.json with the runtimes. It keeps all other settings, their
// order and the formatting.
func editDocker(files []file, at string, d Desired) (edit, error) {
	old := textOf(files, at)
	text, hasBOM := bytes.CutPrefix(old, bom())
	if blank(text) {
		text = []byte("{}\n")
	}
	set := func(value any, keys ...string) error {
		raw, err := json.Marshal(value)
		if err != nil {
			return err
		}
		text, err = rawjson.Set(text, keys, string(raw))
		return err
	}
	if err := rawjson.Check(text); err != nil {
		return edit{}, fmt.Errorf("read %s: %w", at, err)
	}
	var errs error
	try := func(value any, keys ...string) {
		if errs == nil && !equalJSON(rawjson.Get(text, keys...), value) {
			errs = set(value, keys...)
		}
	}
	for _, r := range d.Runtimes {
		if rawjson.Get(text, "runtimes", r.Name) == "" {
			try(dockerRuntime{Path: r.Path, Args: []string{}}, "runtimes", r.Name)
			continue
		}
		try(r.Path, "runtimes", r.Name, "path")
	}
	if d.Default != "" {
		try(d.Default, "default-runtime")
	}
	if d.CDI {
		try(true, "features", "cdi")
	}
	if errs != nil {
		return edit{}, fmt.Errorf("edit %s: %w", at, errs)
	}
	if hasBOM {
		text = append(bom(), text...)
	}
	e := edit{}
	e.addFile(at, text)
	return e, nil
}

// jsonString returns the string that a JSON text represents, or "".
func jsonString(raw string) string {
	var s string
	_ = json.Unmarshal([]byte(raw), &s) // "": another type
	return s
}

// dockerRuntime is a runtime in daemon.json.
type dockerRuntime struct {
	Path string   `json:"path"`
	Args []string `json:"args"`
}

// equalJSON reports whether a JSON text represents a value.
func equalJSON(raw string, value any) bool {
	want, err := json.Marshal(value)
	return err == nil && sameJSON([]byte(raw), want)
}

// sameJSON reports whether two documents have the same value.
func sameJSON(a, b []byte) bool {
	var x, y any
	// Reflection is necessary, because a document has values of any type.
	return json.Unmarshal(bytes.TrimPrefix(a, bom()), &x) == nil && json.Unmarshal(bytes.TrimPrefix(b, bom()), &y) == nil &&
		reflect.DeepEqual(x, y)
}

// dockerKeys returns the parts of daemon.json that this package sets. "*" stands for each
// member.
func dockerKeys() [][]string {
	return [][]string{{"runtimes", "*"}, {"features", "cdi"}, {"default-runtime"}}
}

// stripDocker reverts the changes of this package in a file that was edited since. It reverts
// only values that are still as written. The parameter now is the edited content, before is
// the content before the changes, and wrote is the content that this package wrote.
func stripDocker(now, before, wrote []byte) ([]byte, error) {
	text, hasBOM := bytes.CutPrefix(now, bom())
	if err := rawjson.Check(text); err != nil {
		return nil, err
	}
	before, wrote = bytes.TrimPrefix(before, bom()), bytes.TrimPrefix(wrote, bom())
	var err error
	for _, keys := range expand(wrote) {
		ours, old := rawjson.Get(wrote, keys...), rawjson.Get(before, keys...)
		if ours == old || !sameJSON([]byte(rawjson.Get(text, keys...)), []byte(ours)) {
			continue
		}
		if old == "" {
			text = rawjson.Delete(text, keys...)
		} else if text, err = rawjson.Set(text, keys, old); err != nil {
			return nil, err
		}
	}
	for _, parent := range []string{"runtimes", "features"} {
		if rawjson.Get(before, parent) == "" && equalJSON(rawjson.Get(text, parent), struct{}{}) {
			text = rawjson.Delete(text, parent)
		}
	}
	if hasBOM {
		text = append(bom(), text...)
	}
	return text, nil
}

// expand returns the paths of dockerKeys in a document, with the names of members for "*".
func expand(text []byte) [][]string {
	var out [][]string
	for _, keys := range dockerKeys() {
		if keys[len(keys)-1] != "*" {
			out = append(out, keys)
			continue
		}
		var members map[string]json.RawMessage
		_ = json.Unmarshal([]byte(rawjson.Get(text, keys[:len(keys)-1]...)), &members) // no members: nothing to expand
		for _, name := range sortedKeys(members) {
			out = append(out, []string{keys[0], name})
		}
	}
	return out
}

// removeDockerRuntimes removes the runtimes with our programs from a file without a record.
func removeDockerRuntimes(text []byte, d Desired) []byte {
	body, hasBOM := bytes.CutPrefix(text, bom())
	for _, r := range d.Runtimes {
		if !equalJSON(rawjson.Get(body, "runtimes", r.Name, "path"), r.Path) {
			continue
		}
		body = rawjson.Delete(body, "runtimes", r.Name)
		if equalJSON(rawjson.Get(body, "default-runtime"), r.Name) {
			body = rawjson.Delete(body, "default-runtime")
		}
	}
	if hasBOM {
		return append(bom(), body...)
	}
	return body
}
