package smi

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Name is the name of the program nvidia-smi.
const Name = "nvidia-smi"

// IsProgram reports whether a program with this name belongs to the driver.
func IsProgram(name string) bool { return strings.HasPrefix(name, "nvidia-") }

// Run simulates the program with this name.
func Run(name string, args []string, out io.Writer) error {
	if name == persistenced {
		if err := startDaemon(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	if name != Name {
		return fmt.Errorf("%s: not simulated: this node's driver has the file only", name)
	}
	if r, ok := parseReset(args); ok {
		if err := r.run(out); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	q, err := parse(args)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := q.run(out); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// query describes the requested output.
type query struct {
	show   show
	fields []string
	header bool
}

// show is an output format.
type show int

const (
	showFields show = iota // --query-gpu
	showTable              // no argument
	showList               // -L
	showLog                // -q
)

func fields() []string { return []string{"index", "uuid", "name", "driver_version"} }

func parse(args []string) (query, error) {
	switch strings.Join(args, " ") {
	case "":
		return query{show: showTable}, nil
	case "-L", "--list-gpus":
		return query{show: showList}, nil
	case "-q", "--query":
		return query{show: showLog}, nil
	}
	var q query
	format := ""
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "--query-gpu":
			q.fields = strings.Split(value, ",")
		case "--format":
			format = value
		default:
			return q, notSimulated(strings.Join(args, " "))
		}
	}
	switch format {
	case "csv":
		q.header = true
	case "csv,noheader":
	default:
		return q, notSimulated("--format=" + format)
	}
	for _, f := range q.fields {
		if !slices.Contains(fields(), f) {
			return q, notSimulated("--query-gpu=" + f)
		}
	}
	if len(q.fields) == 0 {
		return q, notSimulated("no --query-gpu")
	}
	return q, nil
}

func notSimulated(what string) error {
	return fmt.Errorf("%s: not simulated; there are the table without arguments, -q and -L alone, -r -i GPU,… and --query-gpu=%s --format=csv[,noheader]", what, strings.Join(fields(), ","))
}

func (q query) run(out io.Writer) (err error) {
	lib, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lib.close()) }()
	switch q.show {
	case showTable, showLog:
		return q.printAll(lib, out)
	default:
		return q.printLines(lib, out)
	}
}

// printAll prints the table or the log.
func (q query) printAll(lib *library, out io.Writer) error {
	n, err := lib.node()
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range n.devices {
		errs = append(errs, d.fault())
	}
	if q.show == showLog {
		return errors.Join(append(errs, n.writeLog(out))...)
	}
	return errors.Join(append(errs, n.writeTable(out))...)
}

// printLines prints a line for each GPU.
func (q query) printLines(lib *library, out io.Writer) error {
	driver, err := lib.driver()
	if err != nil {
		return err
	}
	gpus, err := lib.gpus()
	if err != nil {
		return err
	}
	var b strings.Builder
	if q.header {
		b.WriteString(strings.Join(q.fields, ", ") + "\n")
	}
	var errs []error
	for _, g := range gpus {
		errs = append(errs, g.fault())
		if g.err == nil {
			b.WriteString(q.line(g, driver) + "\n")
		}
	}
	_, err = io.WriteString(out, b.String())
	return errors.Join(append(errs, err)...)
}

// fault returns the error that prevents a GPU from being shown, or nil.
func (g gpu) fault() error {
	if g.err == nil {
		return nil
	}
	return fmt.Errorf("GPU %d: %w", g.index, g.err)
}

func (q query) line(g gpu, driver string) string {
	if q.show == showList {
		lines := []string{fmt.Sprintf("GPU %d: %s (UUID: %s)", g.index, g.name, g.uuid)}
		for _, m := range g.mig {
			_, profile, _ := strings.Cut(m.name, " MIG ")
			lines = append(lines, fmt.Sprintf("  MIG %-12sDevice %2d: (UUID: %s)", profile, m.index, m.uuid))
		}
		return strings.Join(lines, "\n")
	}
	values := map[string]string{"index": strconv.Itoa(g.index), "uuid": g.uuid, "name": g.name, "driver_version": driver}
	var line []string
	for _, f := range q.fields {
		line = append(line, values[f])
	}
	return strings.Join(line, ", ")
}
