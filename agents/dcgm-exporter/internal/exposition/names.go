package exposition

import (
	"strings"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
	"outrigger.dev/agents/dcgm-exporter/internal/field"
)

// named returns the metrics under the names of a set, with the units and values that belong to these
// names. No two of the returned metrics have the same name.
func named(metrics []counters.Metric, names Names) []counters.Metric {
	if names == Spelled || names == "" {
		return metrics
	}
	out, seen := make([]counters.Metric, 0, 2*len(metrics)), map[string]bool{}
	add := func(m counters.Metric) {
		if !seen[m.Name] {
			seen[m.Name] = true
			out = append(out, m)
		}
	}
	for _, m := range metrics {
		if names == Both {
			add(m)
		}
		add(renewed(m))
	}
	return out
}

// renewed returns a metric with the name, unit and value that it has in DCGM 4.7.
func renewed(m counters.Metric) counters.Metric {
	if m.Computed != "" {
		return m
	}
	f := field.Renewed(m.Field)
	if f.ID != m.Field.ID {
		m.Help = helpInBaseUnit(m.Help)
	}
	m.Name, m.Field = f.Name, f
	return m
}

// helpInBaseUnit replaces the unit at the end of a help text.
func helpInBaseUnit(help string) string {
	if i := strings.LastIndex(help, " (in "); i > 0 {
		help = help[:i]
	}
	return strings.TrimSuffix(help, ".") + ", in base units"
}
