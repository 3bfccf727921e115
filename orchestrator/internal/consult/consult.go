// Package consult is the command doctor of the orchestrator and of kubectl-outrigger: it reads the facts of a cluster or
// of an archive, and prints the report of package doctor.
package consult

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/orchestrator/internal/archive"
	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/read"
	"outrigger.dev/orchestrator/internal/table"
	"outrigger.dev/pkg/cmdline"
)

// garbage is the size of the garbage in the heap, in percent of the live objects, that starts a collection. Pages of lists
// are garbage soon: with 5,000 nodes and the default of 100, the process needs twice the memory. The container of the
// orchestrator has a limit.
const garbage = 40

// timeout is the time limit for reading the cluster and for the answers of agents.
const timeout = time.Minute

// Config describes the program that has the command.
type Config struct {
	// From returns the cluster that the flags select, and Agent is the name of the program.
	From  func() cluster.Kubeconfig
	Agent string
	// Output is the format of the output.
	Output *string
	// Flags are more flags of the command.
	Flags []cli.Flag
}

// command has the values of the flags.
type command struct {
	Config

	offline string
	ask     bool
}

// Command returns the command doctor.
func Command(cfg Config) *cli.Command {
	v := &command{Config: cfg}
	return &cli.Command{
		Name: "doctor", ArgsUsage: "[NODE | NAMESPACE/POD]",
		Usage: "say why GPUs of the cluster, of a node or of a pod cannot be used, with the evidence and the fix",
		Description: "The first finding is the first broken link of the chain from the hardware to the program. For a node or a pod, doctor asks " +
			"the agents on the node, by a command in their containers. It uses the rights of the caller, and lists what it could not see.\n" +
			"The exit code is 0 without findings, 3 if something waits or starts, and 4 if something has failed.",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{
				Name: "ask-agents", EnvVars: []string{"OUTRIGGER_ASK_AGENTS"}, Value: true, Destination: &v.ask,
				Usage: "ask the agents on the node, which needs the verb create on pods/exec",
			},
			&cli.PathFlag{
				Name: "offline", EnvVars: []string{"OUTRIGGER_OFFLINE"}, Destination: &v.offline,
				Usage: "`FOLDER` or archive of must-gather to read instead of the cluster",
			},
		}, cfg.Flags...),
		Action: v.run,
	}
}

func (d *command) run(c *cli.Context) error {
	defer debug.SetGCPercent(debug.SetGCPercent(garbage))
	if c.NArg() > 1 {
		return cmdline.Usagef("arguments of doctor: name one node or one pod")
	}
	target, err := facts.ParseTarget(c.Args().First(), cmp.Or(c.String("namespace"), d.From().Namespace()))
	if err != nil {
		return cmdline.Usagef("arguments of doctor: %w", err)
	}
	f, err := d.facts(c, target)
	if err != nil {
		return err
	}
	report := doctor.Diagnose(f, target)
	err = table.Print(table.For(c.App.Writer), *d.Output, report, func(o table.Out) error { return doctor.Write(o, report) })
	if code := report.ExitCode(); code != 0 {
		err = errors.Join(err, cli.Exit("", code))
	}
	return err
}

// facts reads the cluster, or an archive.
func (d *command) facts(c *cli.Context, target facts.Target) (facts.Facts, error) {
	if d.offline != "" {
		return archive.Read(d.offline)
	}
	client, err := cluster.Open(d.From(), d.Agent)
	if err != nil {
		return facts.Facts{}, err
	}
	ctx, cancel := context.WithTimeout(c.Context, timeout)
	defer cancel()
	progress := table.NewProgress(table.For(c.App.ErrWriter))
	defer progress.End()
	return read.Read(ctx, read.Config{
		Client: client, Target: target, Ask: d.ask, Progress: func(step string) { progress.Step("%s", step) },
	})
}
