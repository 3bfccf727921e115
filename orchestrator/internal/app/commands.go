package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/consult"
	"outrigger.dev/orchestrator/internal/definition"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/once"
	"outrigger.dev/orchestrator/internal/report"
	"outrigger.dev/orchestrator/internal/table"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/cmdline"
)

// renderVersion is the version of Kubernetes that the commands without a cluster use by default.
const renderVersion = "v1.36.0"

// applyTimeout is the default time limit for all stages together.
const applyTimeout = 15 * time.Minute

// statusTimeout is the time limit for reading the cluster.
const statusTimeout = time.Minute

// deleteTimeout is the default time limit for the agents' cleanup.
const deleteTimeout = 5 * time.Minute

// definitionTimeout is the default time limit of a change of the CRD.
const definitionTimeout = 2 * time.Minute

func (s *settings) commands() []*cli.Command {
	doctor := consult.Command(consult.Config{From: s.cluster, Agent: name, Output: &s.output, Flags: []cli.Flag{
		cmdline.Enum(&cli.StringFlag{
			Name: "output", Aliases: []string{"o"}, EnvVars: []string{"DOCTOR_OUTPUT"}, Value: table.FormatTable, Destination: &s.output, Usage: "output `FORMAT`: table, json or yaml",
		}, table.Formats()...),
	}})
	return []*cli.Command{doctor, {
		Name: "run", Usage: "keep the cluster in the state of its ClusterPolicy; this is the default",
	}, {
		Name: "render", Usage: "print the objects that the values describe; needs no cluster", Action: s.renderCommand,
		Flags: s.kubeVersion("`VERSION` of Kubernetes to render for"),
	}, {
		Name: "check", Usage: "print all errors of the values, and the values without effect; needs no cluster", Action: s.checkCommand,
		Flags: s.kubeVersion("`VERSION` of Kubernetes to check for"),
	}, {
		Name: "apply", Usage: "apply the objects that the values describe to the cluster, and record them in the ConfigMap " + once.Name, Action: s.inCluster(s.applyCommand),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", EnvVars: []string{"DRY_RUN"}, Destination: &s.dryRun, Usage: "print what would change, and change nothing"},
			&cli.BoolFlag{Name: "wait", EnvVars: []string{"WAIT"}, Destination: &s.wait, Usage: "apply stage by stage, and wait until each stage is ready and validated"},
			s.timeoutFlag(applyTimeout, "`TIME` after which the command fails"),
			&cli.BoolFlag{Name: "adopt", EnvVars: []string{"ADOPT"}, Destination: &s.adopt, Usage: "take over objects that other programs manage"},
			&cli.BoolFlag{Name: "prune", EnvVars: []string{"PRUNE"}, Value: true, Destination: &s.prune, Usage: "delete applied objects that the values no longer describe"},
		},
	}, {
		Name: "status", Usage: "print the stages, the numbers of nodes, and problems with their fixes", Action: s.inCluster(s.statusCommand),
	}, {
		Name: "delete", Usage: "delete the ClusterPolicies and all applied objects, and wait until the agents have cleaned up their nodes", Action: s.inCluster(s.deleteCommand),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "verify", EnvVars: []string{"VERIFY"}, Destination: &s.verify, Usage: "list the remains on the nodes, and fail if there are any"},
			s.timeoutFlag(deleteTimeout, "`TIME` that the cleanup by the agents may take"),
		},
	}, {
		Name: "apply-crd", Usage: "apply the CustomResourceDefinition of ClusterPolicy; restore it if somebody has deleted it", Action: s.inCluster(s.applyDefinition),
		Flags: []cli.Flag{s.timeoutFlag(definitionTimeout, "`TIME` after which the command fails")},
	}, {
		Name: "delete-crd", Usage: "delete the CustomResourceDefinition of ClusterPolicy, unless the cluster has a ClusterPolicy", Action: s.inCluster(s.deleteDefinition),
		Flags: []cli.Flag{s.timeoutFlag(definitionTimeout, "`TIME` after which the command fails")},
	}}
}

// kubeVersion returns the flag of the commands that need no cluster.
func (s *settings) kubeVersion(usage string) []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "kube-version", EnvVars: []string{"KUBE_VERSION"}, Value: renderVersion, Destination: &s.kubernetes, Usage: usage}}
}

func (s *settings) timeoutFlag(value time.Duration, usage string) cli.Flag {
	return cmdline.Positive(&cli.DurationFlag{Name: "timeout", EnvVars: []string{"TIMEOUT"}, Value: value, Destination: &s.timeout, Usage: usage})
}

// inCluster returns the action of a command that needs a cluster. The context of do ends after the time of the flag
// --timeout.
func (s *settings) inCluster(do func(ctx context.Context, c *cli.Context, store once.Store) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		ctx, cancel := context.WithTimeout(c.Context, cmp.Or(s.timeout, statusTimeout))
		defer cancel()
		store, err := s.openStore()
		if err != nil {
			return err
		}
		if s.kubernetes, err = store.Client.Version(ctx); err != nil {
			return err
		}
		return do(ctx, c, store)
	}
}

func (s *settings) renderCommand(c *cli.Context) error {
	list, err := s.stages(s.kubernetes)
	if err != nil {
		return err
	}
	for _, s := range list {
		for _, o := range s.Objects {
			text, err := yaml.Marshal(o.Object)
			if err != nil {
				return fmt.Errorf("print %s: %w", o.GetName(), err)
			}
			if _, err := fmt.Fprintf(c.App.Writer, "---\n# Stage: %s\n%s", s.Name, text); err != nil {
				return fmt.Errorf("print objects: %w", err)
			}
		}
	}
	return nil
}

func (s *settings) applyCommand(ctx context.Context, c *cli.Context, store once.Store) error {
	if err := checkNoPolicy(ctx, store.Client); err != nil {
		return err
	}
	list, err := s.stages(s.kubernetes)
	if err != nil {
		return err
	}
	a := &once.Apply{
		Store: store, Release: s.release.Name, Values: s.release.Values, Stages: list, Out: c.App.Writer,
		Adopt: s.adopt, Prune: s.prune, Wait: s.wait,
	}
	if s.dryRun {
		return a.Diff(ctx)
	}
	status, err := a.Run(ctx, agent.Logger(c))
	if a.Wait && len(status.Stages) > 0 {
		fmt.Fprintln(c.App.Writer)
		err = errors.Join(report.Write(table.For(c.App.Writer), status), err)
	}
	return err
}

// statusCommand prints the status of the ClusterPolicy in effect. Without a ClusterPolicy, it
// prints the status of the objects of the last "orchestrator apply".
func (s *settings) statusCommand(ctx context.Context, c *cli.Context, store once.Store) error {
	now, err := once.Current(ctx, store, agent.Logger(c))
	if err != nil {
		return err
	}
	if _, err := io.WriteString(c.App.Writer, now.Warning); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	return report.Write(table.For(c.App.Writer), now.Status)
}

// applyDefinition applies the CRD. Helm runs it before each installation and each upgrade.
func (*settings) applyDefinition(ctx context.Context, c *cli.Context, store once.Store) error {
	return definition.Apply(ctx, store.Client, agent.Logger(c))
}

// deleteDefinition deletes the CRD. Helm runs it after "helm uninstall", if the values ask for it.
func (*settings) deleteDefinition(ctx context.Context, _ *cli.Context, store once.Store) error {
	return definition.Delete(ctx, store.Client)
}

// checkNoPolicy returns an error if the cluster has a ClusterPolicy.
func checkNoPolicy(ctx context.Context, client *cluster.Client) error {
	policies, err := observe.ListPolicies(ctx, client)
	if len(policies) > 0 {
		err = fmt.Errorf("the ClusterPolicy %s decides which objects are in this cluster: change or delete the ClusterPolicy instead, with kubectl or the values of its Helm release", policies[0].Name)
	}
	return err
}
