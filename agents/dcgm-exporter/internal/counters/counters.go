// Package counters parses the list of metrics to serve: a CSV file in the format of NVIDIA's DCGM
// Exporter, with one metric per line.
package counters

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"outrigger.dev/agents/dcgm-exporter/internal/field"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/text"
)

// Default is the list that is used if the user provides no list.
//
//go:embed default-counters.csv
var Default []byte

// Default47 has the metrics that the default list of DCGM 4.7 has in addition.
const Default47 = "DCGM_FI_DEV_FB_CAPACITY_BYTES, gauge, Framebuffer memory capacity (in bytes).\n"

// Limit is the size of the largest list, in bytes.
const Limit = 1 << 20

// Type is the type of a metric.
type Type string

// The types of metrics.
const (
	Gauge   Type = "gauge"
	Counter Type = "counter"
	// Label adds the value, which is text, as a label to all metrics of the GPU.
	Label Type = "label"
)

// Computed is a metric that the exporter computes itself.
type Computed string

// The metrics that the exporter computes.
const (
	XIDCount     Computed = "DCGM_EXP_XID_ERRORS_COUNT"
	XIDTotal     Computed = "DCGM_EXP_XID_ERRORS_TOTAL"
	ClockCount   Computed = "DCGM_EXP_CLOCK_EVENTS_COUNT"
	ClockTotal   Computed = "DCGM_EXP_CLOCK_EVENTS_TOTAL"
	HealthStatus Computed = "DCGM_EXP_GPU_HEALTH_STATUS"
	P2PStatus    Computed = "DCGM_EXP_P2P_STATUS"
)

// Metric is one metric of a list.
type Metric struct {
	// Name is the name of the metric, as spelled in the list.
	Name string
	// Field is the field of DCGM. It is set if Computed is empty.
	Field    field.Field
	Computed Computed
	Type     Type
	Help     string
}

// Problem describes a line that cannot be served.
type Problem struct {
	Line int
	Text string
}

// Error returns the problem with its line.
func (p Problem) Error() string { return fmt.Sprintf("line %d: %s", p.Line, p.Text) }

// maxProblems is the largest number of problems that are reported for a list.
const maxProblems = 50

// Parse parses a list. It leaves out lines that cannot be served, and returns a Problem for each
// of the first 50. It returns an error if it can serve no line.
func Parse(data []byte) ([]Metric, []Problem, error) {
	if len(data) > Limit {
		return nil, nil, fmt.Errorf("the list has %d bytes, more than %d", len(data), Limit)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte-order mark
	p := parser{csv: csv.NewReader(bytes.NewReader(data)), seen: map[string]int{}}
	p.csv.Comment = '#'
	p.csv.FieldsPerRecord = -1
	p.csv.ReuseRecord = true
	for p.next() {
	}
	if len(p.metrics) == 0 {
		err := errors.New("the list has no metric that can be served")
		if len(p.problems) > 0 {
			err = fmt.Errorf("%w: %w", err, p.problems[0])
		}
		return nil, p.problems, err
	}
	return p.metrics, p.problems, nil
}

type parser struct {
	csv      *csv.Reader
	metrics  []Metric
	problems []Problem
	// seen has the line of each metric.
	seen map[string]int
}

// next parses one line, and returns false after the last.
func (p *parser) next() bool {
	record, err := p.csv.Read()
	if errors.Is(err, io.EOF) {
		return false
	}
	if err != nil {
		line := 0
		if bad, ok := errors.AsType[*csv.ParseError](err); ok {
			line, err = bad.StartLine, bad.Err
		}
		p.problem(line, "%v: put a help text with a comma or a quote in double quotes, without a space before the first", err)
		return true
	}
	line, _ := p.csv.FieldPos(0)
	if m, reason := metric(record); reason != "" {
		p.problem(line, "%s", reason)
	} else if before, ok := p.seen[m.Name]; ok {
		p.problem(line, "%s is in line %d already", m.Name, before)
	} else {
		p.seen[m.Name] = line
		p.metrics = append(p.metrics, m)
	}
	return true
}

func (p *parser) problem(line int, format string, args ...any) {
	if len(p.problems) < maxProblems {
		p.problems = append(p.problems, Problem{Line: line, Text: fmt.Sprintf(format, args...)})
	}
}

// name matches the valid names of metrics.
var name = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// metric returns the metric of a line, or why it cannot be served.
func metric(record []string) (m Metric, reason string) {
	if len(record) != 3 {
		return m, fmt.Sprintf("%d values, want 3: field of DCGM, type, help (put a help text with a comma in double quotes)", len(record))
	}
	m = Metric{Name: strings.TrimSpace(record[0]), Type: Type(strings.TrimSpace(record[1])), Help: strings.TrimSpace(record[2])}
	if !name.MatchString(m.Name) {
		return m, unknownField(quote(m.Name))
	}
	if m.Type != Gauge && m.Type != Counter && m.Type != Label {
		return m, fmt.Sprintf("%s: unknown type %s (want gauge, counter or label)", m.Name, quote(string(m.Type)))
	}
	if strings.HasPrefix(m.Name, "DCGM_EXP_") {
		m.Computed = Computed(m.Name)
		if !slices.Contains([]Computed{XIDCount, XIDTotal, ClockCount, ClockTotal, HealthStatus, P2PStatus}, m.Computed) {
			return m, m.Name + ": this exporter does not compute it"
		}
		if m.Type == Label {
			return m, m.Name + ": a number cannot be a label"
		}
		return m, ""
	}
	var ok bool
	if m.Field, ok = field.ByName(m.Name); !ok {
		return m, unknownField(m.Name)
	}
	switch {
	case m.Field.Text && m.Type != Label:
		return m, m.Name + ": its value is text: the type must be label"
	case !m.Field.Text && m.Type == Label && !constant(m.Field):
		return m, m.Name + ": a number that changes cannot be a label"
	case !Served(m.Field):
		return m, m.Name + ": this exporter does not serve it"
	}
	return m, ""
}

// unknownField returns the problem of a name that is not a field, with a similar field or an example.
func unknownField(name string) string {
	var fields []string
	for f := range field.All() {
		fields = append(append(fields, f.Name), f.Earlier...)
	}
	if similar := text.Nearest(name, fields); similar != "" {
		return name + " is not a field of DCGM: did you mean " + similar + "?"
	}
	return name + " is not a field of DCGM: use the name of a field, such as DCGM_FI_DEV_GPU_TEMP, or remove the line"
}

// Served reports whether the exporter has a source for a field.
func Served(f field.Field) bool {
	switch f.ID {
	case telemetry.DCGM_FI_SYSTEM_DRIVER_VERSION, telemetry.DCGM_FI_SYSTEM_NVML_VERSION, telemetry.DCGM_FI_DEV_GPU_BRAND,
		telemetry.DCGM_FI_DEV_XID_ERROR: // package telemetry does not have their values
		return true
	default:
		_, ok := telemetry.SourceOf(f.ValueFrom)
		return ok
	}
}

// constant reports whether a value does not change while the driver runs.
func constant(f field.Field) bool {
	s, ok := telemetry.SourceOf(f.ValueFrom)
	return ok && s.Static
}

// quote returns the start of a text from the user, without characters that a terminal interprets.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "…"
	}
	return fmt.Sprintf("%q", text.Printable(s))
}
