// Package page derives the page of the benchmarks from the results of runs. It does no I/O.
package page

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/test/bench/internal/report"
)

// Result is a row of a run, with the day and the machine of the run.
type Result struct {
	report.Row
	Date    string `json:"date"`
	Machine string `json:"machine"`
}

// Merge adds the rows of a run to results. They replace older results of the same operations; the other results stay, with their
// date. Rows that the run has skipped replace nothing.
func Merge(results []Result, run report.Run, machine string) []Result {
	byOperation := map[string]Result{}
	for _, r := range results {
		byOperation[r.Operation] = r
	}
	for _, row := range run.Rows {
		if old, found := byOperation[row.Operation]; row.Unit == "" || found && old.Date > run.Date {
			continue
		}
		byOperation[row.Operation] = Result{Row: row, Date: run.Date, Machine: machine}
	}
	merged := []Result{}
	for _, r := range byOperation {
		merged = append(merged, r)
	}
	slices.SortFunc(merged, func(a, b Result) int { return cmp.Compare(a.Operation, b.Operation) })
	return merged
}

//go:embed intro.txt
var intro string

// Page returns the page with these figures. A figure without a result says so.
func Page(figures []Figure, results []Result) string {
	byOperation := map[string]Result{}
	for _, r := range results {
		byOperation[r.Operation] = r
	}
	var rows strings.Builder
	var machines []string
	area := ""
	for _, f := range figures {
		if f.Area != area {
			area = f.Area
			fmt.Fprintf(&rows, "\n## %s\n\n| figure | here | target | NVIDIA's program | source | date |\n|---|---|---|---|---|---|\n", area)
		}
		result, found := byOperation[f.Operation]
		writeRow(&rows, f, result, found)
		if machine := fmt.Sprintf("| %s | %s |\n", result.Date, result.Machine); found && !slices.Contains(machines, machine) {
			machines = append(machines, machine)
		}
	}
	slices.Sort(machines)
	slices.Reverse(machines)
	runs := ""
	if len(machines) > 0 {
		runs = "\n| date | machine |\n|---|---|\n" + strings.Join(machines, "")
	}
	return fmt.Sprintf(intro, len(results)) + runs + rows.String()
}

func writeRow(w *strings.Builder, f Figure, result Result, found bool) {
	here, target, peer, date := f.Here, f.Target, f.Peer, ""
	switch {
	case found:
		here, date = result.Amount(), result.Date
		if text, met := result.Target(); text != "" {
			target = text + ", " + map[bool]string{true: "met", false: "missed"}[met]
		}
		peer = cmp.Or(result.Goal.Peer, peer)
	case f.Operation != "":
		here = "not measured yet"
	}
	source := f.Source
	if peer == "" {
		source = ""
	}
	fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", f.Name, here, cmp.Or(target, "–"), cmp.Or(peer, "–"), cmp.Or(source, "–"), cmp.Or(date, "–"))
}

// Missing returns the operations of figures that have no result.
func Missing(figures []Figure, results []Result) []string {
	var missing []string
	for _, f := range figures {
		if f.Operation != "" && !slices.ContainsFunc(results, func(r Result) bool { return r.Operation == f.Operation }) {
			missing = append(missing, f.Operation)
		}
	}
	return missing
}
