// Package report collects figures and prints them as a table, each beside its
// target.
package report

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Row is one figure.
type Row struct {
	Operation string
	// Value and Target are in one unit: milliseconds, or megabytes.
	Value  float64
	Target float64
	Unit   string
	// Note says what is to be known beside, for example NVML calls.
	Note string
}

// Table collects rows, and tells of each when it comes.
type Table struct {
	out, progress io.Writer
	rows          []Row
}

// New returns an empty table, to be printed to out.
func New(out, progress io.Writer) *Table { return &Table{out: out, progress: progress} }

// Add adds a row.
func (t *Table) Add(r Row) {
	t.rows = append(t.rows, r)
	fmt.Fprintf(t.progress, "measured %s: %s\n", r.Operation, amount(r.Value, r.Unit))
}

// AddTimes adds the median of times as a row.
func (t *Table) AddTimes(operation string, times []time.Duration, target time.Duration, note string) {
	spread := fmt.Sprintf("%s to %s", amount(ms(slices.Min(times)), "ms"), amount(ms(slices.Max(times)), "ms"))
	if note != "" {
		spread += ", " + note
	}
	t.Add(Row{Operation: operation, Value: ms(Median(times)), Target: ms(target), Unit: "ms", Note: spread})
}

// Print prints the table.
func (t *Table) Print() error {
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "OPERATION\tMEDIAN\tTARGET\t\tNOTE")
	for _, r := range t.rows {
		target, verdict := "-", ""
		if r.Target > 0 {
			target, verdict = "≤ "+amount(r.Target, r.Unit), "ok"
			if r.Value > r.Target {
				verdict = "MISSED"
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Operation, amount(r.Value, r.Unit), target, verdict, r.Note)
	}
	return w.Flush()
}

// Median returns the middle one of times, of which there is at least one.
func Median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func amount(v float64, unit string) string {
	digits := 1
	if v < 1 {
		digits = 3
	}
	return fmt.Sprintf("%.*f %s", digits, v, unit)
}
