package app_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/dcgm-exporter/internal/app"
	"outrigger.dev/agents/dcgm-exporter/internal/counters"
	"outrigger.dev/agents/dcgm-exporter/internal/field"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
)

const page = "../../../../docs/dcgm-exporter-reference.md"

func TestFlagsAreDocumented(t *testing.T) {
	agenttest.Documented(t, app.App(), page)
}

// The page has the table of all fields that are served.
func TestFieldsAreDocumented(t *testing.T) {
	want := "| field | DCGM 4.7 | from |\n|---|---|---|\n"
	for f := range field.All() {
		if counters.Served(f) {
			want += row(f)
		}
	}
	agenttest.Table(t, page, "Fields", want)
}

// The page has the table of the rows of public lists.
func TestPublicListsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../counters/testdata/public-lists.tsv")
	assert.NilError(t, err)
	old := map[field.ID]string{} // the names in 1.x
	var rows [][]string
	for line := range strings.Lines(string(data)) {
		cells := append(strings.Split(strings.TrimSuffix(line, "\n"), "\t"), "")
		if strings.HasPrefix(line, "#") || cells[0] == "name" {
			continue
		}
		if f, ok := field.ByName(cells[0]); ok && cells[2] == "1.x" {
			old[f.ID] = cells[0]
		} else {
			rows = append(rows, cells)
		}
	}
	want := "| row | in 1.x | lists | served |\n|---|---|---|---|\n"
	for _, cells := range rows {
		f, _ := field.ByName(cells[0])
		served := "yes"
		if s, ok := telemetry.SourceOf(f.ValueFrom); cells[3] != "" {
			served = "no: " + cells[3]
		} else if ok && s.Call == "nvmlGpmMetricsGet" {
			served = "on Hopper and later GPUs"
		} else if cells[1] == "label" {
			served = "yes, as a label"
		}
		name := ""
		if old[f.ID] != "" {
			name = "`" + old[f.ID] + "`"
			delete(old, f.ID)
		}
		want += fmt.Sprintf("| `%s` | %s | %s | %s |\n", cells[0], name, strings.ReplaceAll(cells[2], ",", ", "), served)
	}
	if len(old) > 0 {
		t.Errorf("no row for the names in 1.x of %v", old)
	}
	agenttest.Table(t, page, "Public lists", want)
}

// row returns the row of one field.
func row(f field.Field) string {
	from := "the node"
	if f.ID == telemetry.DCGM_FI_DEV_XID_ERROR {
		from = "events"
	} else if s, ok := telemetry.SourceOf(f.ValueFrom); ok {
		from = "`" + s.Call + "`"
		if s.ID > 0 {
			from += " " + strconv.Itoa(s.ID)
		}
	}
	if f.Scale != 1 {
		from += fmt.Sprintf(", × %g", f.Scale)
	}
	name := f.Name
	if name == f.Legacy() {
		name = ""
	} else {
		name = "`" + name + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", f.Legacy(), name, from)
}
