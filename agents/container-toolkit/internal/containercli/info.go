package containercli

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"outrigger.dev/agents/container-toolkit/internal/container"
)

func infoCommand() command {
	f := newFlags("info", "", "Print the versions of the driver and CUDA, and the GPUs. Brand and architecture are from the node's CDI spec, since only NVML knows them.")
	asCSV := f.boolean("csv", "", "print as CSV")
	return command{f, func(g global, args []string, stdout io.Writer) error {
		if len(args) > 0 {
			return fmt.Errorf("unexpected argument %q", args[0])
		}
		cfg, n, err := g.read()
		if err != nil {
			return err
		}
		records := driverRecords(cfg, n)
		if *asCSV {
			return writeCSV(stdout, records)
		}
		return writeText(stdout, records)
	}}
}

// record is a list of names and values.
type record [][2]string

// driverRecords returns the records that info prints: one for the driver, then one for each GPU.
func driverRecords(cfg container.Config, n *container.Node) []record {
	out := []record{{{"NVRM version", n.Content.Version}, {"CUDA version", orNA(cfg.CUDA(n.Content.Version))}}}
	for _, g := range n.GPUs {
		f := cfg.Facts(g)
		out = append(out, record{
			{"Device Index", strconv.Itoa(g.Index)},
			{"Device Minor", strconv.Itoa(g.Minor)},
			{"Model", orNA(g.Name)},
			{"Brand", orNA(f.Brand)},
			{"GPU UUID", orNA(string(g.UUID))},
			{"Bus Location", container.NVMLBusID(g.BusID)},
			{"Architecture", orNA(f.Arch)},
		})
	}
	return out
}

func orNA(s string) string {
	if s == "" {
		return "N/A"
	}
	return s
}

func writeText(w io.Writer, records []record) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for i, r := range records {
		if i > 0 {
			fmt.Fprintln(t)
		}
		for _, pair := range r {
			fmt.Fprintf(t, "%s:\t%s\n", pair[0], pair[1])
		}
	}
	return t.Flush()
}

// writeCSV writes one table for the driver and one for the GPUs, as scripts parse them.
func writeCSV(w io.Writer, records []record) error {
	out := csv.NewWriter(w)
	for i, r := range records {
		names, values := make([]string, len(r)), make([]string, len(r))
		for j, pair := range r {
			names[j], values[j] = pair[0], pair[1]
		}
		rows := [][]string{values}
		if i < 2 {
			rows = [][]string{names, values}
		}
		if err := out.WriteAll(rows); err != nil {
			return err
		}
	}
	return nil
}
