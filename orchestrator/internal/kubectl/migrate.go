package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"

	"outrigger.dev/orchestrator/internal/migrate"
	"outrigger.dev/orchestrator/internal/table"
	"outrigger.dev/pkg/cmdline"
)

const (
	// migrateTimeout is the default time limit of each wait.
	migrateTimeout = 10 * time.Minute
	// driverTimeout is the default time limit for the driver, whose build can take 15 minutes.
	driverTimeout = 30 * time.Minute
	// migratePoll is the delay between two reads of the cluster.
	migratePoll = time.Second
	// rebootTimeout is the default time limit for the reboot of a node.
	rebootTimeout = 24 * time.Hour
	// migrateSettle is longer than the 10 s between two reports of a kubelet.
	migrateSettle = 12 * time.Second
)

// migration holds the flags of the command migrate.
type migration struct {
	*settings
	files           []string
	registry, write string
	only, nodes     string
	final, undo     bool
	by, driver      string
	yes, evict      bool
	timeout         time.Duration
	// slow gives the driver more time, because the user has not set a time limit.
	slow bool
}

func (s *settings) migrateCommand() *cli.Command {
	m := &migration{settings: s}
	return &cli.Command{
		Name:  "migrate",
		Usage: "move from NVIDIA's GPU Operator to Outrigger, one component at a time",
		Description: cmdline.Describe("Without --only, --undo or --yes, it prints a plan: what changes in the values, and which hand-overs follow.\nIt changes nothing without --yes.",
			cmdline.Example{Purpose: "Print the plan, and write the values for the start of the migration", Line: "kubectl outrigger migrate --registry registry.example.org/gpu --write values.yaml"},
			cmdline.Example{Purpose: "Plan without a cluster", Line: "kubectl outrigger migrate --from-file values-of-nvidia.yaml"},
			cmdline.Example{Purpose: "Hand one component over on one node", Line: "kubectl outrigger migrate --only dcgm-exporter --nodes kubernetes.io/hostname=NODE --yes"},
			cmdline.Example{Purpose: "Hand all components over, except the driver", Line: "kubectl outrigger migrate --yes"},
			cmdline.Example{Purpose: "Hand the driver over, on each node when it reboots", Line: "kubectl outrigger migrate --only driver --driver on-reboot --yes"},
			cmdline.Example{Purpose: "Go back", Line: "kubectl outrigger migrate --undo --yes"},
		),
		Flags:  m.flags(),
		Action: func(c *cli.Context) error { return m.run(c) },
	}
}

func (m *migration) flags() []cli.Flag {
	return []cli.Flag{
		cmdline.List(&cli.StringSliceFlag{
			Name: "from-file", Aliases: []string{"f"}, EnvVars: []string{"OUTRIGGER_FROM_FILE"},
			Usage: "plan from a `FILE` and not from the cluster: values of NVIDIA's chart, or its ClusterPolicy and NVIDIADrivers; can be repeated",
		}, &m.files),
		&cli.StringFlag{Name: "registry", EnvVars: []string{"OUTRIGGER_REGISTRY"}, Destination: &m.registry, Usage: "`REGISTRY` of Outrigger's images, for global.registry"},
		&cli.StringFlag{Name: "write", EnvVars: []string{"OUTRIGGER_WRITE"}, Destination: &m.write, Usage: "write the values of the chart outrigger to a `FILE`"},
		&cli.BoolFlag{Name: "final", EnvVars: []string{"OUTRIGGER_FINAL"}, Destination: &m.final, Usage: "write the values for the time after NVIDIA's GPU Operator"},
		&cli.StringFlag{Name: "only", EnvVars: []string{"OUTRIGGER_ONLY"}, Destination: &m.only, Usage: "hand over only one `COMPONENT`: dcgm-exporter, feature-discovery, mig-manager, device-plugin, toolkit or driver"},
		&cli.StringFlag{Name: "nodes", EnvVars: []string{"OUTRIGGER_NODES"}, Destination: &m.nodes, Usage: "hand over only nodes with a label: a label `SELECTOR`"},
		cmdline.Enum(&cli.StringFlag{
			Name: "by", EnvVars: []string{"OUTRIGGER_BY"}, Value: migrate.ByLabels, Destination: &m.by,
			Usage: "hand over by a `WAY`: labels, or clusterpolicy, which also disables the component in NVIDIA's ClusterPolicy, for all nodes",
		}, migrate.ByLabels, migrate.ByClusterPolicy),
		cmdline.Enum(&cli.StringFlag{
			Name: "driver", EnvVars: []string{"OUTRIGGER_DRIVER"}, Value: driverNow, Destination: &m.driver,
			Usage: "hand the driver over `WHEN`: now, or on-reboot, at the next reboot of each node",
		}, driverNow, driverOnReboot),
		&cli.BoolFlag{Name: "undo", Destination: &m.undo, Usage: "give components back to NVIDIA's GPU Operator"},
		&cli.BoolFlag{Name: "yes", Destination: &m.yes, Usage: "do it; without this flag, nothing is changed"},
		&cli.BoolFlag{Name: "evict", Destination: &m.evict, Usage: "cordon a node and evict its GPU pods before its driver is handed over"},
		cmdline.Positive(&cli.DurationFlag{Name: "timeout", EnvVars: []string{"OUTRIGGER_TIMEOUT"}, Value: migrateTimeout, Destination: &m.timeout, Usage: "`TIME` after which a hand-over has failed and is undone; by default 30m for the driver, and 24h for a reboot"}),
	}
}

// The values of --driver.
const (
	driverNow      = "now"
	driverOnReboot = "on-reboot"
)

func (m *migration) run(c *cli.Context) error {
	handOver := m.only != "" || m.undo || m.yes || m.driver == driverOnReboot || m.by == migrate.ByClusterPolicy
	if m.by == migrate.ByClusterPolicy && m.nodes != "" {
		return errors.New("--by clusterpolicy is for all nodes: remove --nodes, or use --by labels")
	}
	if handOver && len(m.files) > 0 {
		return errors.New("--from-file is for a plan: remove it, or remove --only, --by, --driver, --undo and --yes")
	}
	if handOver && m.write != "" {
		return errors.New("--write writes the values of a plan: remove it, or remove --only, --by, --driver, --undo and --yes")
	}
	if handOver {
		m.slow = !c.IsSet("timeout")
		return m.handOver(c.Context, c.App.Writer, c.App.ErrWriter)
	}
	return m.plan(c.Context, c.App.Writer, c.App.ErrWriter)
}

// planned is a plan with the progress of the migration.
type planned struct {
	*migrate.Plan
	// Progress is absent for a plan from files.
	Progress []migrate.Count `json:"progress,omitempty"`
}

// plan prints a plan, and writes its values.
func (m *migration) plan(ctx context.Context, w, log io.Writer) error {
	source, options, counts, err := m.source(ctx)
	if err != nil {
		return err
	}
	p := migrate.New(source, options)
	if left := unfinished(p, counts); m.final && left != "" {
		fmt.Fprintf(log, "Warning: with the final values, Outrigger's agents run on all nodes, and NVIDIA's GPU Operator still has %s: hand them over before you install these values.\n", left)
	}
	if m.write != "" {
		if err := m.writeValues(p); err != nil {
			return err
		}
	}
	result := planned{Plan: p, Progress: counts}
	return table.Print(table.For(w), m.output, result, func(o table.Out) error { return m.printPlan(o, result) })
}

// unfinished lists the components of a plan that have not been handed over on all nodes.
func unfinished(p *migrate.Plan, counts []migrate.Count) string {
	var left []string
	for _, c := range counts {
		n := c.Theirs + c.Between
		if n > 0 && slices.ContainsFunc(p.Steps, func(s migrate.Component) bool { return s.Name == c.Component }) {
			left = append(left, fmt.Sprintf("%s (nodes: %d)", c.Component, n))
		}
	}
	return strings.Join(left, ", ")
}

// source reads the installation from the files, or from the cluster.
func (m *migration) source(ctx context.Context) (s migrate.Source, o migrate.Options, counts []migrate.Count, err error) {
	o.Registry = m.registry
	for _, file := range m.files {
		text, err := os.ReadFile(file)
		if err != nil {
			return s, o, nil, err
		}
		if err := migrate.Read(file, text, &s); err != nil {
			return s, o, nil, err
		}
	}
	if len(m.files) > 0 {
		return s, o, nil, nil
	}
	client, err := m.open()
	if err != nil {
		return s, o, nil, err
	}
	if o.Kubernetes, err = client.Version(ctx); err != nil {
		return s, o, nil, err
	}
	s, found, err := migrate.ReadCluster(ctx, client.Dynamic, &o)
	if err != nil {
		return s, o, nil, explainTo(client)(err)
	}
	if !found {
		return s, o, nil, errors.New("the cluster has no ClusterPolicy, NVIDIADriver or GPUCluster of nvidia.com; plan from a values file with --from-file")
	}
	if counts, err = migrate.Counts(ctx, client.Dynamic, m.nodes); err != nil {
		return s, o, nil, explainTo(client)(err)
	}
	return s, o, counts, nil
}

// writeValues writes the values of a plan to the file.
func (m *migration) writeValues(p *migrate.Plan) error {
	values, about := p.Start, "# Values of the chart outrigger during the migration from NVIDIA's GPU Operator.\n"
	if m.final {
		values, about = p.Values, "# Values of the chart outrigger after the migration from NVIDIA's GPU Operator.\n"
	}
	text, err := yaml.Marshal(values)
	if err != nil {
		return err
	}
	return os.WriteFile(m.write, append([]byte(about), text...), 0o644) //nolint:gosec // the values have no secrets
}

func (m *migration) printPlan(o table.Out, p planned) error {
	fmt.Fprint(o, p.Text())
	if len(p.Progress) > 0 {
		fmt.Fprintln(o)
		t := table.Table{Columns: []table.Column{{Name: "COMPONENT"}, {Name: "NVIDIA"}, {Name: "OUTRIGGER"}, {Name: "BETWEEN"}, {Name: "OTHER"}}}
		for _, c := range p.Progress {
			t.Add(c.Component, fmt.Sprint(c.Theirs), fmt.Sprint(c.Ours), fmt.Sprint(c.Between), fmt.Sprint(c.Other))
		}
		if err := t.Write(o); err != nil {
			return err
		}
	}
	file := m.write
	if file == "" {
		file = "FILE"
		fmt.Fprintf(o, "\nNext: write the values with --write FILE.")
	}
	fmt.Fprintf(o, "\nInstall: helm install outrigger oci://REGISTRY/charts/outrigger --namespace outrigger --create-namespace --values %s\n", file)
	fmt.Fprintln(o, "Hand over: kubectl outrigger migrate --only COMPONENT --yes")
	return nil
}
