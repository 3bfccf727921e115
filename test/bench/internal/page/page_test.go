package page_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"outrigger.dev/test/bench/internal/page"
	"outrigger.dev/test/bench/internal/report"
)

var update = flag.Bool("update", false, "write the golden file")

const machine = "2 processors (Example CPU), 8 GiB of memory, Linux 6.12.0"

func row(operation string, value float64, unit string, goal report.Goal) report.Row {
	return report.Row{Operation: operation, Value: value, Unit: unit, Goal: goal, Note: "a note"}
}

func TestPage(t *testing.T) {
	figures, err := page.Figures()
	if err != nil {
		t.Fatal(err)
	}
	results := page.Merge(nil, report.Run{Date: "2026-11-20", Rows: []report.Row{
		row("orchestrator, 5000 nodes: memory, peak", 65, "MiB", report.Goal{Peer: "2122 MiB and rising", Target: 96}),
	}}, "1 processors (Slow CPU), 4 GiB of memory, Linux 6.1.0")
	results = page.Merge(results, report.Run{Date: "2026-11-27", Rows: []report.Row{
		row("plugin NVML calls at start, plain, 8 GPUs, 10µs per call", 118, "calls", report.Goal{Peer: "158", Target: 157}),
		row("plugin CPU in a minute at rest, 8 GPUs", 21.04, "ms", report.Goal{Target: 20}),
		row("GPU recovered → Healthy at the kubelet, 8 GPUs, 10µs per call", 4.3, "ms", report.Goal{Peer: "never"}),
		row("orchestrator, 1000 nodes: writes at rest, Leases aside", 0, "calls", report.Goal{None: true}),
		row("an operation that is not on the page", 1, "s", report.Goal{}),
	}}, machine)
	got := page.Page(figures, results)
	const golden = "testdata/page.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
}

func TestMerge(t *testing.T) {
	old := []page.Result{{Row: row("start", 9, "ms", report.Goal{}), Date: "2026-11-20", Machine: "old"}}
	for name, test := range map[string]struct {
		date string
		row  report.Row
		// want has the values, dates and machines of all results.
		want string
	}{
		"a newer result replaces it":              {"2026-11-27", row("start", 7, "ms", report.Goal{}), "start 7.0 ms 2026-11-27 here"},
		"a result of the same day replaces it":    {"2026-11-20", row("start", 7, "ms", report.Goal{}), "start 7.0 ms 2026-11-20 here"},
		"an older result does not replace it":     {"2026-11-19", row("start", 7, "ms", report.Goal{}), "start 9.0 ms 2026-11-20 old"},
		"a skipped measurement does not":          {"2026-11-27", row("start", 0, "", report.Goal{}), "start 9.0 ms 2026-11-20 old"},
		"a result of another operation is sorted": {"2026-11-27", row("end", 3, "s", report.Goal{}), "end 3.0 s 2026-11-27 here, start 9.0 ms 2026-11-20 old"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range page.Merge(old, report.Run{Date: test.date, Rows: []report.Row{test.row}}, "here") {
				got = append(got, strings.Join([]string{r.Operation, r.Amount(), r.Date, r.Machine}, " "))
			}
			if strings.Join(got, ", ") != test.want {
				t.Errorf("Merge() = %q, want %q", got, test.want)
			}
		})
	}
}

func TestFiguresNameTheirOperationOnce(t *testing.T) {
	figures, err := page.Figures()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range figures {
		if f.Operation != "" && seen[f.Operation] {
			t.Errorf("two figures have the operation %q", f.Operation)
		}
		seen[f.Operation] = true
	}
	if missing := page.Missing(figures, nil); len(missing) < 40 {
		t.Errorf("%d figures have an operation", len(missing))
	}
}
