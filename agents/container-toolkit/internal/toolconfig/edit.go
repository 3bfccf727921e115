package toolconfig

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"outrigger.dev/agents/container-toolkit/internal/rawtoml"
)

//go:embed default.toml
var defaultFile string

// DefaultFile returns a config.toml that contains each key with its default and its meaning.
func DefaultFile() []byte { return []byte(defaultFile) }

// Change sets the value of a key, or removes the key.
type Change struct {
	// Key is the names of the tables and of the key, joined by dots.
	Key string
	// Value has the format of a command line: ":" or "," separates the items of a list.
	Value  string
	Remove bool
}

// ParseChange returns the change for an argument on the command line: "key=value"; "key=nil",
// which removes the key; or "key", which sets a flag to true.
func ParseChange(s string) (Change, error) {
	key, value, assigned := strings.Cut(s, "=")
	key = strings.TrimSpace(key)
	f, known := Default().fields()[key]
	switch {
	case !known:
		return Change{}, fmt.Errorf("set %q: no such key (%q lists them)", key, "nvidia-ctk config create-default")
	case assigned && value == "nil":
		return Change{Key: key, Remove: true}, nil
	case !assigned && f.flag == nil:
		return Change{}, fmt.Errorf("set %q: only a key that is true or false needs no value: use %s=…", key, key)
	case !assigned:
		value = "true"
	}
	if _, err := f.encode(value); err != nil {
		return Change{}, fmt.Errorf("set %q: %w", key, err)
	}
	return Change{Key: key, Value: value}, nil
}

// Edit returns a config.toml with the changes. All other text stays the same: comments, the
// order of the keys, and unknown keys. It returns an error if the result would not be valid.
func Edit(data []byte, changes ...Change) ([]byte, error) {
	for _, c := range changes {
		var err error
		if data, err = edit(data, c); err != nil {
			return nil, fmt.Errorf("set %q: %w", c.Key, err)
		}
	}
	if _, _, err := Parse(data); err != nil {
		return nil, fmt.Errorf("check the config: %w", err)
	}
	// Parse accepts a table that the file defines both as [table] and inline. The decoder does not.
	var all map[string]any
	if err := toml.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("check the config: %w: edit the file by hand", err)
	}
	return data, nil
}

func edit(data []byte, c Change) ([]byte, error) {
	f, known := Default().fields()[c.Key]
	if !known {
		return nil, fmt.Errorf("no such key")
	}
	path := strings.Split(c.Key, ".")
	var old *entry
	if err := walk(data, func(e entry) error {
		if e.key == c.Key {
			old = &e
		}
		return nil
	}); err != nil {
		return nil, err
	}
	switch {
	case c.Remove && old == nil:
		return data, nil
	case c.Remove && old.inline:
		return nil, fmt.Errorf("line %d sets it in an inline table: remove it by hand", old.lineNumber())
	case c.Remove:
		return rawtoml.Remove(data, path)
	}
	value, err := f.encode(c.Value)
	if err != nil {
		return nil, err
	}
	if old != nil {
		return slices.Replace(slices.Clone(data), old.from, old.to, []byte(value)...), nil
	}
	return rawtoml.Insert(data, path, value)
}
