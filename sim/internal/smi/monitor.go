package smi

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// column is a column of dmon: its group in -s, its titles, and the field with its value.
type column struct{ group, name, unit, field string }

func columns() []column {
	return []column{
		{"p", "pwr", "W", "power.draw"},
		{"p", "gtemp", "C", "temperature.gpu"},
		{"p", "mtemp", "C", "temperature.memory"},
		{"u", "sm", "%", "utilization.gpu"},
		{"u", "mem", "%", "utilization.memory"},
		{"u", "enc", "%", "utilization.encoder"},
		{"u", "dec", "%", "utilization.decoder"},
		{"u", "jpg", "%", "utilization.jpeg"},
		{"u", "ofa", "%", "utilization.ofa"},
		{"c", "mclk", "MHz", "clocks.current.memory"},
		{"c", "pclk", "MHz", "clocks.current.sm"},
		{"m", "fb", "MB", "memory.used"},
		{"m", "bar1", "MB", "bar1.used"},
		{"m", "ccpm", "MB", ""},
	}
}

// monitor reads the options of dmon.
func (q query) monitor(args []string) (query, error) {
	q.show, q.loop, q.metrics = showMonitor, time.Second, "puc"
	list, err := options(args, "-i", "--id", "-c", "--count", "-d", "--delay", "-s", "--select")
	if err != nil {
		return q, err
	}
	for _, o := range list {
		switch o.key {
		case "-i", "--id":
			q.ids = strings.Split(o.value, ",")
		case "-c", "--count":
			if q.count, err = strconv.Atoi(o.value); err != nil || q.count <= 0 {
				return q, fmt.Errorf("option %s=%s: want a number of at least 1", o.key, o.value)
			}
		case "-d", "--delay":
			if q.loop, err = duration(o, time.Second); err != nil {
				return q, err
			}
		case "-s", "--select":
			if strings.Trim(o.value, "pucm") != "" {
				return q, notSimulated("dmon -s " + o.value)
			}
			q.metrics = o.value
		default:
			return q, notSimulated("dmon " + o.key)
		}
	}
	return q, nil
}

// writeMonitor prints a line for each GPU and period. It was not compared with the real program.
func (q query) writeMonitor(lib *library, out io.Writer) error {
	set := fields()
	head, units := "# gpu ", "# Idx "
	var chosen []column
	for _, c := range columns() {
		if strings.Contains(q.metrics, c.group) {
			chosen = append(chosen, c)
			head += fmt.Sprintf("%6s ", c.name)
			units += fmt.Sprintf("%6s ", c.unit)
		}
	}
	if err := writeLines(out, []string{head, units}); err != nil {
		return err
	}
	tick := time.NewTicker(q.loop)
	defer tick.Stop()
	for n := 1; ; n++ {
		readers, err := q.readers(lib)
		if err != nil {
			return err
		}
		var lines []string
		for _, r := range readers {
			var line strings.Builder
			fmt.Fprintf(&line, "%5d ", r.gpu.index)
			for _, c := range chosen {
				fmt.Fprintf(&line, "%6s ", whole(set, c.field, r))
			}
			lines = append(lines, line.String())
		}
		if err := writeLines(out, lines); err != nil || n == q.count {
			return err
		}
		<-tick.C
	}
}

// whole returns the value of a field without a fraction, or "-".
func whole(set fieldSet, name string, r *reader) string {
	f, err := set.find(name)
	if err != nil {
		return "-"
	}
	value, _, _ := strings.Cut(f.read(r), ".")
	if value == unknown {
		return "-"
	}
	return value
}
