package strict

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// Entry is a key of a mapping whose keys are names, with its value.
type Entry struct {
	Name string
	// Value is at the line of the key.
	Value
}

// Entries returns the keys and values of a mapping that accepts any name as key. They are in the
// order of the document, followed by the keys that the mapping merges from other mappings. Entries
// reports duplicate keys.
func (v Value) Entries() []Entry {
	if !v.Set() {
		return nil
	}
	if v.node.Kind != yaml.MappingNode {
		v.Bad("a mapping")
		return nil
	}
	var names []string
	for _, n := range v.names(v.node, nil) {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	m := v.Map(names...)
	out := make([]Entry, 0, len(names))
	for _, name := range names {
		out = append(out, Entry{Name: name, Value: m.Get(name)})
	}
	return out
}

// names returns the keys of a mapping and of the mappings that it merges. The parameter within has
// the mappings that merge it.
func (v Value) names(n *yaml.Node, within []*yaml.Node) []string {
	var own, merged []string
	if slices.Contains(within, n) {
		return nil
	}
	within = append(within, n)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
		case key.ShortTag() != "!!merge":
			own = append(own, key.Value)
		default:
			merged = append(merged, v.mergedNames(value, within)...)
		}
	}
	return append(own, merged...)
}

// mergedNames returns the keys of the value of a merge key: a mapping, or a list of them.
func (v Value) mergedNames(n *yaml.Node, within []*yaml.Node) []string {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.MappingNode:
		return v.names(n, within)
	case yaml.SequenceNode:
		var out []string
		for _, entry := range n.Content {
			out = append(out, v.mergedNames(entry, within)...)
		}
		return out
	default:
		return nil
	}
}
