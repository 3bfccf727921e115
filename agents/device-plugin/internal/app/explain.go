package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/file"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

const (
	outputTable = "table"
	outputJSON  = "json"
)

func (s *settings) explainCommand() *cli.Command {
	var file, output string
	return &cli.Command{
		Name:  "explain",
		Usage: "print which devices of a node the flags and --config-file advertise, and why other devices are not advertised",
		Flags: []cli.Flag{
			&cli.PathFlag{
				Name: "node", EnvVars: []string{"EXPLAIN_NODE"}, Destination: &file,
				Usage: "`FILE` with the output of the command snapshot; if empty, the GPUs of --gpu-source",
			},
			cmdline.Enum(&cli.StringFlag{
				Name: "output", EnvVars: []string{"EXPLAIN_OUTPUT"}, Value: outputTable, Destination: &output,
				Usage: "output `FORMAT`: table or json",
			}, outputTable, outputJSON),
		},
		Action: func(c *cli.Context) error { return s.explain(c, file, output) },
	}
}

// explain prints which devices the plugin advertises. It uses the node in the file, or this
// node if file is empty.
func (s *settings) explain(c *cli.Context, file, output string) error {
	log := agent.Logger(c)
	if err := s.load(c.Context, nil, log); err != nil {
		return err
	}
	node, err := s.node(c.Context, file, log)
	if err != nil {
		return err
	}
	// As after a start, health depends on the snapshot and, on this node, on the XIDs that the agents share.
	m := health.New(s.rules(s.live.Config, log))
	if file == "" {
		s.driver.Incidents(nil, log).Restore(c.Context, m, node)
	}
	m.Observe(node, time.Now())
	out := newExplanation(resource.Derive(node, m.View(), s.live.Config))
	out.Notes = append(slices.Clone(s.live.Config.Warnings), out.Notes...)
	if output == outputJSON {
		enc := json.NewEncoder(c.App.Writer)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		err = enc.Encode(out)
	} else {
		err = out.table(c.App.Writer)
	}
	if err != nil {
		return fmt.Errorf("print explanation: %w", err)
	}
	return nil
}

// node reads a file with a snapshot, or takes a snapshot of this node.
func (s *settings) node(ctx context.Context, path string, log *slog.Logger) (node *gpu.Node, err error) {
	var src gpu.Source = file.New(path, log)
	if path == "" {
		if src, err = s.driver.Source(log); err != nil {
			return nil, err
		}
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	return src.Snapshot(ctx)
}

// explanation is the output of explain, derived from a resource.Set.
type explanation struct {
	Resources     []advertised `json:"resources"`
	NotAdvertised []unlisted   `json:"notOffered"`
	Notes         []string     `json:"notes"`
}

type advertised struct {
	Name string `json:"name"`
	// Capacity and Allocatable are the values in the status of the Node.
	Capacity    int    `json:"capacity"`
	Allocatable int    `json:"allocatable"`
	Sharing     string `json:"sharing,omitempty"`
	// MaxOne is set if requests for more than one replica are rejected.
	MaxOne  bool     `json:"failRequestsGreaterThanOne,omitempty"`
	Devices []device `json:"devices"`
}

type device struct {
	Index    string   `json:"index"`
	UUID     gpu.UUID `json:"uuid"`
	Replicas int      `json:"replicas"`
	// IDs are the first and the last ID that the kubelet has for the device.
	IDs      []string `json:"ids"`
	NUMANode int      `json:"numaNode"`
	Healthy  bool     `json:"healthy"`
	// Kind is the code of the cause of an unhealthy device.
	Kind   string `json:"kind,omitempty"`
	Reason string `json:"reason,omitempty"`
}

type unlisted struct {
	Index  string   `json:"index"`
	UUID   gpu.UUID `json:"uuid,omitempty"`
	Kind   string   `json:"kind"`
	Reason string   `json:"reason"`
}

func newExplanation(set resource.Set) explanation {
	out := explanation{Resources: []advertised{}, NotAdvertised: []unlisted{}, Notes: append([]string{}, set.Notes...)}
	for _, r := range set.Resources {
		o := advertised{Name: r.Name, Sharing: string(r.Sharing), MaxOne: r.FailRequestsGreaterThanOne}
		for _, d := range r.Devices {
			o.Capacity += d.Replicas
			if d.Health.Healthy {
				o.Allocatable += d.Replicas
			}
			ids := []string{d.ID(0)}
			if d.Replicas > 1 {
				ids = append(ids, d.ID(d.Replicas-1))
			}
			o.Devices = append(o.Devices, device{
				Index: d.Index, UUID: d.UUID, Replicas: d.Replicas, IDs: ids, NUMANode: d.NUMANode,
				Healthy: d.Health.Healthy, Kind: string(d.Health.Kind), Reason: d.Health.Reason,
			})
		}
		out.Resources = append(out.Resources, o)
	}
	for _, u := range set.Unlisted {
		out.NotAdvertised = append(out.NotAdvertised, unlisted{Index: u.Index, UUID: u.UUID, Kind: string(u.Kind), Reason: u.Reason})
	}
	return out
}

// table prints the explanation in columns.
func (e explanation) table(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	if len(e.Resources) == 0 {
		fmt.Fprintln(w, "no resource is advertised")
	} else {
		fmt.Fprintln(w, "RESOURCE\tCAPACITY\tALLOCATABLE\tSHARING")
	}
	for _, r := range e.Resources {
		sharing := dash(r.Sharing)
		if r.MaxOne {
			sharing += ", at most one per container"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", r.Name, r.Capacity, r.Allocatable, sharing)
	}
	if len(e.Resources) > 0 {
		fmt.Fprintln(w, "\nRESOURCE\tINDEX\tDEVICE\tREPLICAS\tNUMA\tHEALTH")
	}
	for _, r := range e.Resources {
		for _, d := range r.Devices {
			state := "healthy"
			if !d.Healthy {
				state = "unhealthy: " + d.Reason
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", r.Name, d.Index, d.UUID, d.Replicas, d.NUMANode, state)
		}
	}
	if len(e.NotAdvertised) > 0 {
		fmt.Fprintln(w, "\nNOT ADVERTISED\tDEVICE\tKIND\tREASON")
	}
	for _, u := range e.NotAdvertised {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", u.Index, dash(string(u.UUID)), u.Kind, u.Reason)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i, n := range e.Notes {
		if i == 0 {
			fmt.Fprintln(to)
		}
		fmt.Fprintf(to, "note: %s\n", n)
	}
	return nil
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
