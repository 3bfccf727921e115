// Package report collects results and prints them as a table, with the target and the
// result of NVIDIA's programs.
package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Goal has the values to compare a result with. The zero value means no comparison.
type Goal struct {
	// Peer is the result of NVIDIA's program in the same kind of run, as text.
	Peer string `json:"peer,omitempty"`
	// Target is the largest accepted value, in the unit of the row; 0 for no target.
	Target float64 `json:"target,omitempty"`
	// None is set if the target is 0.
	None bool `json:"none,omitempty"`
}

// Row is one result.
type Row struct {
	Operation string `json:"operation"`
	// Value is in Unit: "ms", "s", "MiB", "calls", or "×" for a ratio. Unit is empty for a figure
	// that was not measured.
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	Goal  Goal    `json:"goal,omitzero"`
	// Note is additional information, for example the number of NVML calls.
	Note string `json:"note,omitempty"`
}

// Amount returns the value and its unit, as text.
func (r Row) Amount() string { return amount(r.Value, r.Unit) }

// Target returns the target as text, and whether the value meets it. The text is empty without a target.
func (r Row) Target() (text string, met bool) {
	if r.Goal.Target == 0 && !r.Goal.None {
		return "", true
	}
	return "≤ " + amount(r.Goal.Target, r.Unit), r.Value <= r.Goal.Target
}

// Title returns the name of a result that was measured in a scene with a latency per
// NVML call.
func Title(figure, scene string, latency time.Duration) string {
	return fmt.Sprintf("%s, %s, %s per call", figure, scene, latency)
}

// Table collects rows, and prints each as progress when it is added.
type Table struct {
	out, progress io.Writer
	rows          []Row
}

// New returns an empty table that Print writes to out.
func New(out, progress io.Writer) *Table { return &Table{out: out, progress: progress} }

// Add adds a row.
func (t *Table) Add(r Row) {
	t.rows = append(t.rows, r)
	fmt.Fprintf(t.progress, "measured %s: %s\n", r.Operation, amount(r.Value, r.Unit))
}

// AddPerMinute adds a row whose value was counted for this duration, as the value for a minute.
func (t *Table) AddPerMinute(r Row, counted time.Duration) {
	r.Value /= counted.Minutes()
	if counted != time.Minute {
		r.Note = strings.TrimSuffix(fmt.Sprintf("counted for %s, %s", counted, r.Note), ", ")
	}
	t.Add(r)
}

// AddTimes adds the median of times as a row.
func (t *Table) AddTimes(operation string, times []time.Duration, goal Goal, note string) {
	spread := fmt.Sprintf("%s to %s", amount(ms(slices.Min(times)), "ms"), amount(ms(slices.Max(times)), "ms"))
	if note != "" {
		spread += ", " + note
	}
	t.Add(Row{Operation: operation, Value: ms(Median(times)), Unit: "ms", Goal: goal, Note: spread})
}

// Skip adds a row for a figure that this machine cannot measure.
func (t *Table) Skip(operation, reason string) {
	t.rows = append(t.rows, Row{Operation: operation, Note: reason})
	fmt.Fprintf(t.progress, "skipped %s: %s\n", operation, reason)
}

// AddRatio adds the ratio of two rows of this run, which is more comparable between
// machines than a time. It adds nothing if one of the rows is missing.
func (t *Table) AddRatio(of, to string) {
	a, b := t.row(of), t.row(to)
	if a == nil || b == nil || b.Value == 0 {
		return
	}
	t.Add(Row{Operation: of + " / " + to, Value: a.Value / b.Value, Unit: "×"})
}

func (t *Table) row(operation string) *Row {
	i := slices.IndexFunc(t.rows, func(r Row) bool { return r.Operation == operation })
	if i < 0 {
		return nil
	}
	return &t.rows[i]
}

// Print prints the table.
func (t *Table) Print() error {
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "OPERATION\tMEDIAN\tTARGET\t\tPEER\tNOTE")
	for _, r := range t.rows {
		target, met := r.Target()
		verdict := ""
		switch {
		case target != "" && met:
			verdict = "ok"
		case target != "":
			verdict = "over"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Operation, r.Amount(), cmp.Or(target, "-"), verdict, cmp.Or(r.Goal.Peer, "-"), r.Note)
	}
	return w.Flush()
}

// Median returns the median of values, which must not be empty.
func Median[T cmp.Ordered](values []T) T { return Percentile(values, 50) }

// Percentile returns the value at this percentage of the sorted values, which must not be empty.
func Percentile[T cmp.Ordered](values []T, percent int) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func amount(v float64, unit string) string {
	digits := 1
	switch {
	case unit == "":
		return "skipped"
	case unit == "calls":
		digits = 0
	case v < 1:
		digits = 3
	}
	return fmt.Sprintf("%.*f %s", digits, v, unit)
}
