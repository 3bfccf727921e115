package engine

import (
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"outrigger.dev/agents/container-toolkit/internal/rawtoml"
)

// containerd and CRI-O compare the names of settings without regard to case, because their TOML
// libraries do: Kubespray writes systemdCgroup, and containerd reads SystemdCgroup. They compare the
// names of plugins and of runtimes exactly. The functions in this file do the same.

// chosen reports whether a key is a name that a person or a plugin chose. The parameter before is
// the key of its table, or "".
func chosen(before string) bool { return before == "plugins" || before == "runtimes" }

// spellings returns the keys of a table that the engine reads as key, sorted.
func spellings(table map[string]any, key string) []string {
	var out []string
	for _, k := range sortedKeys(table) {
		if strings.EqualFold(k, key) {
			out = append(out, k)
		}
	}
	return out
}

// valueAt returns the value at a path, or nil. If a table has several spellings of a key, the last
// one counts, as in containerd 2.
func valueAt(doc map[string]any, path []string) any {
	path = spelled(doc, path)
	for i, key := range path {
		if i == len(path)-1 {
			return doc[key]
		}
		doc, _ = doc[key].(map[string]any)
	}
	return doc
}

// spelled returns a path with the keys as the document spells them. Missing keys stay as they are.
func spelled(doc map[string]any, path []string) []string {
	out := slices.Clone(path)
	before := ""
	for i, key := range path {
		if all := spellings(doc, key); len(all) > 0 && !chosen(before) {
			out[i] = all[len(all)-1]
		}
		doc, _ = doc[out[i]].(map[string]any)
		before = key
	}
	return out
}

// setKey sets a key of a decoded table, in each spelling that the table has.
func setKey(table map[string]any, key string, value any) {
	all := spellings(table, key)
	if len(all) == 0 {
		all = []string{key}
	}
	for _, k := range all {
		table[k] = value
	}
}

// deleteKey deletes all spellings of a key from a decoded table.
func deleteKey(table map[string]any, key string) {
	for _, k := range spellings(table, key) {
		delete(table, k)
	}
}

// respelled returns a table with the keys as another table spells them. The engine merges the two.
func respelled(table, as map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range table {
		if sub, ok := v.(map[string]any); ok {
			v = respelled(sub, tableAt(as, []string{k}))
		}
		keys := spellings(as, k)
		if len(keys) == 0 {
			keys = []string{k}
		}
		for _, k := range keys {
			out[k] = v
		}
	}
	return out
}

// setText sets the key at path in a text to a value, in each spelling that the text has.
func setText(text []byte, path []string, value any) ([]byte, error) {
	raw, err := rawtoml.Value(value)
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := toml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	path = spelled(doc, path)
	last := len(path) - 1
	keys := []string{path[last]}
	if last == 0 || !chosen(path[last-1]) {
		if all := spellings(tableAt(doc, path[:last]), path[last]); len(all) > 0 {
			keys = all
		}
	}
	for _, k := range keys {
		path[last] = k
		if text, err = rawtoml.Set(text, path, raw); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// addTables adds tables at the end of a text, with the keys above them as the text spells them.
func addTables(text []byte, tables ...rawtoml.Table) ([]byte, error) {
	var doc map[string]any
	if err := toml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	for i := range tables {
		tables[i].Path = spelled(doc, tables[i].Path)
	}
	return rawtoml.AddTables(text, tables...)
}

// importsIn returns the path of the list of imports in a text.
func importsIn(text []byte) []string {
	var doc map[string]any
	_ = toml.Unmarshal(text, &doc) // the caller parses the text as well
	return spelled(doc, []string{"imports"})
}
