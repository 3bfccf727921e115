package smi

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// missing stands for a value that is not available in CSV. nvidia-smi prints N/A in brackets there.
const missing = "[N/A]"

// title returns the name of a column.
func title(name, unit string) string {
	if unit == "" {
		return name
	}
	return name + " [" + unit + "]"
}

// cell returns a value of a column.
func (q query) cell(value, unit string) string {
	switch {
	case value == unknown:
		return missing
	case unit == "" || !q.units:
		return value
	default:
		return value + " " + unit
	}
}

// writeFields prints a line for each GPU.
func (q query) writeFields(lib *library, out io.Writer) error {
	readers, err := q.readers(lib)
	var lines []string
	if q.header {
		var titles []string
		for _, f := range q.fields {
			titles = append(titles, title(f.name, f.unit))
		}
		lines = append(lines, strings.Join(titles, ", "))
	}
	errs := []error{err}
	for _, r := range readers {
		var cells []string
		for _, f := range q.fields {
			cells = append(cells, q.cell(f.read(r), f.unit))
		}
		lines = append(lines, strings.Join(cells, ", "))
		errs = append(errs, r.err)
	}
	return errors.Join(append(errs, writeLines(out, lines))...)
}

func writeLines(out io.Writer, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	_, err := io.WriteString(out, strings.Join(lines, "\n")+"\n")
	return err
}

// appColumns returns the columns of --query-compute-apps, with the unit. The values are in the order
// of appValues.
func appColumns() []word {
	return []word{{"timestamp", ""}, {"gpu_name", ""}, {"gpu_bus_id", ""}, {"gpu_serial", ""}, {"gpu_uuid", ""}, {"pid", ""}, {"process_name", ""}, {"used_gpu_memory", "MiB"}}
}

// word is the name of a column and its unit.
type word struct{ name, unit string }

func appValues(r *reader, p process) []string {
	set := fields()
	value := func(name string) string {
		f, err := set.find(name)
		if err != nil {
			return unknown
		}
		return f.read(r)
	}
	return []string{value("timestamp"), value("name"), value("pci.bus_id"), value("serial"), value("uuid"), fmt.Sprint(p.pid), p.name, fmt.Sprint(p.memory >> 20)} // from bytes
}

// appFields reads the names of columns of --query-compute-apps.
func appFields(list string) ([]string, error) {
	alias := map[string]string{"name": "process_name", "used_memory": "used_gpu_memory"}
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if alias[name] != "" {
			name = alias[name]
		}
		if !slices.ContainsFunc(appColumns(), func(w word) bool { return w.name == name }) {
			return nil, fmt.Errorf("--query-compute-apps=%s: not simulated, or not a field of nvidia-smi", name)
		}
		names = append(names, name)
	}
	return names, nil
}

// writeApps prints a line for each process.
func (q query) writeApps(lib *library, out io.Writer) error {
	readers, err := q.readers(lib)
	var titles, lines []string
	columns := appColumns()
	at := func(name string) int { return slices.IndexFunc(columns, func(w word) bool { return w.name == name }) }
	for _, name := range q.apps {
		titles = append(titles, title(name, columns[at(name)].unit))
	}
	if q.header {
		lines = append(lines, strings.Join(titles, ", "))
	}
	for _, r := range readers {
		for _, p := range lib.processes(r) {
			values := appValues(r, p)
			var cells []string
			for _, name := range q.apps {
				cells = append(cells, q.cell(values[at(name)], columns[at(name)].unit))
			}
			lines = append(lines, strings.Join(cells, ", "))
		}
	}
	return errors.Join(err, writeLines(out, lines))
}

// writeHelp prints the names of the fields.
func writeHelp(out io.Writer) error {
	lines := []string{"The simulated fields of --query-gpu:"}
	for _, f := range fields().all {
		line := "  " + title(f.name, f.unit)
		if len(f.aliases) > 0 {
			line += "  (also " + strings.Join(f.aliases, ", ") + ")"
		}
		lines = append(lines, line)
	}
	return writeLines(out, lines)
}
