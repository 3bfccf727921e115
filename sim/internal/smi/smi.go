package smi

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Name is the program that lists GPUs.
const Name = "nvidia-smi"

// IsProgram tells whether a program of this name belongs to the driver.
func IsProgram(name string) bool { return strings.HasPrefix(name, "nvidia-") }

// Run plays the program name.
func Run(name string, args []string, out io.Writer) error {
	if name != Name {
		return fmt.Errorf("%s: not simulated: this node's driver has the file only", name)
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

// query is what the arguments ask for.
type query struct {
	list   bool // -L
	fields []string
	header bool
}

func fields() []string { return []string{"index", "uuid", "name", "driver_version"} }

func parse(args []string) (query, error) {
	if slices.Equal(args, []string{"-L"}) || slices.Equal(args, []string{"--list-gpus"}) {
		return query{list: true}, nil
	}
	var q query
	if len(args) == 0 {
		return q, notSimulated("the table")
	}
	format := ""
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "--query-gpu":
			q.fields = strings.Split(value, ",")
		case "--format":
			format = value
		default:
			return q, notSimulated(arg)
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
	return fmt.Errorf("%s: not simulated; there are -L and --query-gpu=%s --format=csv[,noheader]", what, strings.Join(fields(), ","))
}

func (q query) run(out io.Writer) (err error) {
	lib, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lib.close()) }()
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
		if g.err != nil {
			errs = append(errs, fmt.Errorf("GPU %d: %w", g.index, g.err))
			continue
		}
		b.WriteString(q.line(g, driver) + "\n")
	}
	_, err = io.WriteString(out, b.String())
	return errors.Join(append(errs, err)...)
}

func (q query) line(g gpu, driver string) string {
	if q.list {
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
