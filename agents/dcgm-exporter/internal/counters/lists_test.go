package counters_test

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
)

// publicLists has the rows of public lists of metrics. A test of package app also prints them into the
// documentation.
//
//go:embed testdata/public-lists.tsv
var publicLists string

// Each row of a public list is served, or has the reason.
func TestPublicLists(t *testing.T) {
	rows := map[string]int{}
	for line := range strings.Lines(publicLists) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || cells[0] == "name" {
			continue
		}
		for list := range strings.SplitSeq(cells[2], ",") {
			rows[list]++
		}
		_, _, err := counters.Parse(fmt.Appendf(nil, "%s, %s, x\n", cells[0], cells[1]))
		if explained := len(cells) > 3; (err == nil) == explained {
			t.Errorf("%s: served: %v, explained: %t", cells[0], err, explained)
		}
	}
	for list, want := range map[string]int{"default": 61, "dcp": 57, "1.x": 41, "datadog": 65} {
		if rows[list] != want {
			t.Errorf("%d rows of the list %s, want %d", rows[list], list, want)
		}
	}
}
