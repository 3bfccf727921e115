package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/inventory"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/once"
	"outrigger.dev/orchestrator/internal/report"
	"outrigger.dev/pkg/agent"
)

const (
	flagDryRun  = "dry-run"
	flagWait    = "wait"
	flagAdopt   = "adopt"
	flagPrune   = "prune"
	flagVerify  = "verify"
	flagTimeout = "timeout"
)

// renderVersion is the version of Kubernetes that is rendered for without a cluster.
const renderVersion = "v1.36.0"

// waitTimeout bounds how long all stages may take.
const waitTimeout = 15 * time.Minute

// deleteTimeout bounds how long pods may take to end.
const deleteTimeout = 5 * time.Minute

func commands() []*cli.Command {
	return []*cli.Command{{
		Name: "run", Usage: "keep the cluster as its ClusterPolicy says, as without a command",
	}, {
		Name: "render", Usage: "print all objects of the values, without a cluster", Action: renderCommand,
		Flags: []cli.Flag{&cli.StringFlag{
			Name: flagKubernetes, EnvVars: []string{"KUBE_VERSION"}, Value: renderVersion, Usage: "`VERSION` of Kubernetes to render for",
		}},
	}, {
		Name: "apply", Usage: "apply all objects of the values to the cluster, and remember them in the ConfigMap " + inventory.Name, Action: applyCommand,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: flagDryRun, EnvVars: []string{"DRY_RUN"}, Usage: "print what would change, and change nothing"},
			&cli.BoolFlag{Name: flagWait, EnvVars: []string{"WAIT"}, Usage: "apply stage by stage, and wait until each works and is validated"},
			&cli.DurationFlag{Name: flagTimeout, EnvVars: []string{"TIMEOUT"}, Value: waitTimeout, Usage: "`TIME` after which wait gives up"},
			&cli.BoolFlag{Name: flagAdopt, EnvVars: []string{"ADOPT"}, Usage: "take over objects that others manage"},
			&cli.BoolFlag{Name: flagPrune, EnvVars: []string{"PRUNE"}, Value: true, Usage: "delete objects that left the values"},
		},
	}, {
		Name: "status", Usage: "print the stages, the numbers of nodes, and problems with their fixes", Action: statusCommand,
	}, {
		Name: "delete", Usage: "delete the ClusterPolicies and everything that is applied, after the agents have cleaned up their nodes", Action: deleteCommand,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: flagVerify, EnvVars: []string{"VERIFY"}, Usage: "list what is left on the nodes, and fail if there is something"},
			&cli.DurationFlag{Name: flagTimeout, EnvVars: []string{"TIMEOUT"}, Value: deleteTimeout, Usage: "`TIME` that the agents have to clean up"},
		},
	}}
}

func renderCommand(c *cli.Context) error {
	stages, err := read(c).stages(c.String(flagKubernetes))
	if err != nil {
		return err
	}
	for _, s := range stages {
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

func applyCommand(c *cli.Context) error {
	s := read(c)
	client, store, err := s.open(c)
	if err != nil {
		return err
	}
	version, err := client.Version(c.Context)
	if err != nil {
		return err
	}
	if err := unowned(c.Context, client); err != nil {
		return err
	}
	stages, err := s.stages(version)
	if err != nil {
		return err
	}
	a := &once.Apply{
		Client: client, Store: store, Release: s.release, Stages: stages,
		Adopt: c.Bool(flagAdopt), Prune: c.Bool(flagPrune), Out: c.App.Writer,
	}
	switch {
	case c.Bool(flagDryRun):
		return a.Diff(c.Context)
	case c.Bool(flagWait):
		return wait(c, a)
	}
	return a.Run(c.Context)
}

func wait(c *cli.Context, a *once.Apply) error {
	log, err := agent.Logger(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, c.Duration(flagTimeout))
	defer cancel()
	status, err := a.Wait(ctx, log)
	if len(status.Stages) > 0 {
		fmt.Fprintln(c.App.Writer)
		err = errors.Join(report.Write(c.App.Writer, status), err)
	}
	return err
}

// statusCommand prints the status of the ClusterPolicy in effect, or else of what apply has applied.
func statusCommand(c *cli.Context) error {
	client, store, err := read(c).open(c)
	if err != nil {
		return err
	}
	policy, err := inEffect(c.Context, client)
	if err != nil {
		return err
	}
	if policy != "" {
		o, err := client.Get(c.Context, cluster.PolicyRef(policy))
		if o == nil || err != nil {
			return errors.Join(err, fmt.Errorf("the ClusterPolicy %s is gone", policy))
		}
		p := observe.PolicyOf(o)
		if p.Unreadable != nil {
			return p.Unreadable
		}
		return report.Write(c.App.Writer, p.Status)
	}
	inv, err := store.Load(c.Context)
	if err != nil {
		return err
	}
	if len(inv.Stages) == 0 {
		return fmt.Errorf("nothing is installed: there is no ClusterPolicy, and no ConfigMap %s in the namespace %s; run apply, or set --namespace", inventory.Name, store.Namespace)
	}
	log, err := agent.Logger(c)
	if err != nil {
		return err
	}
	status, err := once.Status(c.Context, client, inv, log)
	if err != nil {
		return err
	}
	return report.Write(c.App.Writer, status)
}

// unowned returns an error if a ClusterPolicy says what is in the cluster.
func unowned(ctx context.Context, client *cluster.Client) error {
	policy, err := inEffect(ctx, client)
	if err == nil && policy != "" {
		err = fmt.Errorf("the ClusterPolicy %s says what is in this cluster: change or delete it instead, with kubectl or the values of its Helm release", policy)
	}
	return err
}

// inEffect returns the name of the oldest ClusterPolicy, empty if there is none.
func inEffect(ctx context.Context, client *cluster.Client) (string, error) {
	gvr, _, err := client.Mapping(cluster.PolicyRef(""))
	if no := (*cluster.NoKindError)(nil); errors.As(err, &no) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	list, err := client.Metadata.Resource(gvr).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list ClusterPolicies: %w", err)
	}
	if len(list.Items) == 0 {
		return "", nil
	}
	oldest := slices.MinFunc(list.Items, func(a, b metav1.PartialObjectMetadata) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	return oldest.Name, nil
}
