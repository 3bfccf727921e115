package config

import (
	"strings"

	"outrigger.dev/pkg/config/strict"
)

func readResources(v strict.Value) Resources {
	m := v.Map("gpus", "mig")
	return Resources{GPUs: readPatterns(m.Get("gpus")), MIG: readPatterns(m.Get("mig"))}
}

func readPatterns(v strict.Value) []Pattern {
	var out []Pattern
	lines := map[string]int{}
	for _, entry := range v.List() {
		m := entry.Map("pattern", "name")
		at := m.Get("pattern")
		pattern, ok := at.Text()
		switch {
		case ok && strings.TrimSpace(pattern) == "":
			at.Bad("a text in which * stands for any text")
		case ok && lines[pattern] > 0:
			at.Fail("the pattern %q is already in line %d, which takes precedence", pattern, lines[pattern])
		case ok:
			lines[pattern] = at.Line()
		case !at.Set():
			at.Missing(`a text in which * stands for any text, like "NVIDIA A100*" or "1g.*"`)
		}
		if name, ok := readName(m.Get("name"), true); ok {
			out = append(out, Pattern{Pattern: pattern, Name: name})
		}
	}
	return out
}

// readName reads the name of a resource, and returns it fully qualified.
func readName(v strict.Value, required bool) (string, bool) {
	if !v.Set() && required {
		v.Missing(nameAllowed)
	}
	t, ok := v.Text()
	if !ok {
		return "", false
	}
	name, ok := resourceName(t)
	if !ok {
		v.Bad(nameAllowed)
	}
	return name, ok
}

func readFilter(v strict.Value) Filter {
	m := v.Map("include", "exclude")
	return Filter{Include: readEntries(m.Get("include")), Exclude: readEntries(m.Get("exclude"))}
}

func readEntries(v strict.Value) []string {
	var out []string
	for _, entry := range v.List() {
		t, ok := entry.Text()
		if ok && strings.TrimSpace(t) == "" {
			entry.Bad("a device or a pattern like 0, GPU-<uuid>, 0000:17:* or \"NVIDIA A100*\"")
			continue
		}
		if ok {
			out = append(out, t)
		}
	}
	return out
}
