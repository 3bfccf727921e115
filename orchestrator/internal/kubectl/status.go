package kubectl

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/orchestrator/internal/archive"
	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/once"
	"outrigger.dev/orchestrator/internal/read"
	"outrigger.dev/orchestrator/internal/table"
	"outrigger.dev/orchestrator/internal/view"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/cmdline/category"
)

const (
	// readTimeout is the time limit for reading the cluster.
	readTimeout = time.Minute
	// refresh is the delay between two views of -w.
	refresh = 2 * time.Second
)

// watchFlag returns the flag -w.
func watchFlag(to *bool) cli.Flag {
	return &cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, EnvVars: []string{"OUTRIGGER_WATCH"}, Destination: to, Usage: "show it again every 2 s, until the command is interrupted"}
}

// offlineFlag returns the flag --offline.
func offlineFlag(to *string) cli.Flag {
	return &cli.PathFlag{Name: "offline", EnvVars: []string{"OUTRIGGER_OFFLINE"}, Destination: to, Usage: "`FOLDER` or archive of must-gather to read instead of the cluster"}
}

func (s *settings) statusCommand() *cli.Command {
	var namespace, offline string
	var watch bool
	return &cli.Command{
		Name: "status", Usage: "show the stages, the nodes by cause, and the versions",
		Description: "The exit code is 4 if a node or a stage has failed, 3 if one waits or starts, and 0 if all GPUs can be used.",
		Flags: []cli.Flag{
			watchFlag(&watch), offlineFlag(&offline),
			&cli.StringFlag{
				Name: "namespace", Aliases: []string{"n"}, EnvVars: []string{"OUTRIGGER_NAMESPACE"}, Value: "gpu-operator", Destination: &namespace, Category: category.Kubernetes,
				Usage: "`NAMESPACE` of the record of \"orchestrator apply\", for a cluster without a ClusterPolicy",
			},
		},
		Action: func(c *cli.Context) error {
			load, err := s.statusOf(offline, namespace)
			if err != nil {
				return err
			}
			worst := cause.Severity("")
			err = s.show(c, watch, func(ctx context.Context, progress func(string)) (any, func(table.Out) error, error) {
				v, err := load(ctx, progress)
				worst = v.Worst()
				return v, v.Write, err
			})
			if err != nil || watch {
				return err
			}
			return exitCode(worst)
		},
	}
}

// exitCode returns the exit code for the worst severity.
func exitCode(worst cause.Severity) error {
	switch worst {
	case "":
		return nil
	case cause.Fails:
		return cli.Exit("", doctor.ExitFails)
	default:
		return cli.Exit("", doctor.ExitWaits)
	}
}

// show reads and prints a value once, or again and again.
func (s *settings) show(c *cli.Context, watch bool, load func(ctx context.Context, progress func(string)) (any, func(table.Out) error, error)) error {
	progress := table.NewProgress(table.For(c.App.ErrWriter))
	defer progress.End()
	step := func(what string) { progress.Step("%s", what) }
	draw := func(ctx context.Context, o table.Out) error {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		value, people, err := load(ctx, step)
		progress.End()
		if err != nil {
			return err
		}
		return table.Print(o, s.output, value, people)
	}
	if watch {
		return table.Watch(c.Context, table.For(c.App.Writer), refresh, draw)
	}
	return draw(c.Context, table.For(c.App.Writer))
}

// statusOf returns the function that reads the status: from an archive, or from the cluster.
func (s *settings) statusOf(offline, namespace string) (func(context.Context, func(string)) (view.Status, error), error) {
	if offline != "" {
		return func(context.Context, func(string)) (view.Status, error) { return archivedStatus(offline) }, nil
	}
	client, err := s.open()
	return func(ctx context.Context, progress func(string)) (view.Status, error) {
		return readStatus(ctx, once.Store{Client: client, Namespace: namespace}, progress)
	}, err
}

// archivedStatus returns the status at the time of an archive.
func archivedStatus(name string) (view.Status, error) {
	f, err := archive.Read(name)
	if err != nil {
		return view.Status{}, err
	}
	var policies []model.Policy
	for _, p := range f.Policies {
		policies = append(policies, observe.PolicyOf(p))
	}
	if len(policies) == 0 {
		return view.NewStatus(f, "", "", nil), nil
	}
	inEffect := observe.ByAge(policies)[0]
	return view.NewStatus(f, inEffect.Name, "", &inEffect.Status), nil
}

// readStatus reads the nodes and agents, and the status of the orchestrator. A cluster need not have an orchestrator, and the
// caller need not have the right to read its status.
func readStatus(ctx context.Context, store once.Store, progress func(string)) (view.Status, error) {
	f, err := read.Status(ctx, read.Config{Client: store.Client, Progress: progress})
	if err != nil {
		return view.Status{}, err
	}
	progress("reads the status")
	now, err := once.Current(ctx, store, slog.New(slog.DiscardHandler))
	switch {
	case errors.Is(err, once.ErrNothing):
		return view.NewStatus(f, "", "No orchestrator has installed the agents: there is no ClusterPolicy, and no record of \"orchestrator apply\" in the namespace "+store.Namespace+".", nil), nil
	case err != nil:
		f.Unseen = append(f.Unseen, facts.Unseen{What: "status of the orchestrator", Why: err.Error()})
		return view.NewStatus(f, now.Policy, "", nil), nil //nolint:nilerr // it is in the status as not seen
	}
	return view.NewStatus(f, now.Policy, now.Warning, &now.Status), nil
}
