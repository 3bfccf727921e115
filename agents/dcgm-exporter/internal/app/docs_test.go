package app_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

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

// The page ends with the table of all fields that are served.
func TestFieldsAreDocumented(t *testing.T) {
	const mark = "writes this table. -->\n"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, got, ok := strings.Cut(string(data), mark)
	if !ok {
		t.Fatalf("%s does not have %q", page, mark)
	}
	want := "\n| field | DCGM 4.7 | from |\n|---|---|---|\n"
	for f := range field.All() {
		if counters.Served(f) {
			want += row(f)
		}
	}
	if got == want {
		return
	}
	if update := flag.Lookup("update"); update != nil && update.Value.String() == "true" {
		if err := os.WriteFile(page, []byte(head+mark+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the table of %s is not that of the fields: run go test ./internal/app -update", page)
}

// row is that of one field.
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
