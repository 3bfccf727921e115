package strict

import (
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"outrigger.dev/pkg/text"
)

// Map is a mapping without unknown keys.
type Map struct {
	of   Value
	keys map[string]Value
}

// Map returns the value as a mapping with the known keys, including keys that it merges from other
// mappings. It reports unknown and duplicate keys.
func (v Value) Map(known ...string) Map {
	m := Map{of: v, keys: map[string]Value{}}
	if !v.Set() {
		return m
	}
	if v.node.Kind != yaml.MappingNode {
		v.Bad("a mapping with the keys " + strings.Join(known, ", "))
		m.of.doc = &Doc{broken: true} // its keys cannot be missing
		return m
	}
	m.add(v.node, known, nil)
	return m
}

// add adds the keys of a mapping that m does not have yet, and then the keys that the mapping
// merges. The parameter within has the mappings that merge it.
func (m Map) add(n *yaml.Node, known []string, within []*yaml.Node) {
	v := m.of
	var merges []Value
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		at := Value{doc: v.doc, node: name, key: v.path(name.Value), line: name.Line}
		_, own := m.keys[name.Value]
		switch {
		case name.Kind != yaml.ScalarNode:
			at.Fail("a key must be a word")
			continue
		case lines[name.Value] > 0:
			at.Fail("duplicate key, first in line %d", lines[name.Value])
			continue
		case name.ShortTag() == "!!merge":
			merges = append(merges, v.doc.value(n.Content[i+1], at.key, name.Line))
		case !slices.Contains(known, name.Value):
			at.Fail("unknown key: %s", suggest(name.Value, known))
		case !own:
			m.keys[name.Value] = v.doc.value(n.Content[i+1], at.key, name.Line)
		}
		lines[name.Value] = name.Line
	}
	within = append(within, n)
	for _, merge := range merges {
		for _, other := range merge.mappings() {
			if slices.Contains(within, other) {
				merge.Fail("the mapping contains itself")
				continue
			}
			m.add(other, known, within)
		}
	}
}

// mappings returns the mappings of a merge key: one, or the entries of a list. If two mappings have
// the same key, the first one counts.
func (v Value) mappings() []*yaml.Node {
	switch {
	case !v.Set():
		return nil
	case v.node.Kind == yaml.MappingNode:
		return []*yaml.Node{v.node}
	case v.node.Kind != yaml.SequenceNode:
		v.Bad("a mapping or a list of mappings, such as *name")
		return nil
	}
	var out []*yaml.Node
	for _, entry := range v.List() {
		if entry.node.Kind != yaml.MappingNode {
			entry.Bad("a mapping, such as *name")
			continue
		}
		out = append(out, entry.node)
	}
	return out
}

// Get returns the value of a key, which may be absent.
func (m Map) Get(key string) Value {
	if v, ok := m.keys[key]; ok {
		return v
	}
	return Value{doc: m.of.doc, key: m.of.path(key), line: m.of.line}
}

func (v Value) path(key string) string {
	if len(key) > maxShown || strings.ContainsFunc(key, isUnsafe) {
		key = quote(key)
	}
	if v.key == "" {
		return key
	}
	return v.key + "." + key
}

// isUnsafe reports whether a character does not occur in known keys and may break the line of an
// error.
func isUnsafe(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
}

// suggest returns the key that the author probably meant, or all known keys.
func suggest(key string, known []string) string {
	if best := text.Nearest(key, known); best != "" {
		return "did you mean " + best + "?"
	}
	return "must be one of " + strings.Join(known, ", ")
}
