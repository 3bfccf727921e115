package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/inventory"
	"outrigger.dev/orchestrator/internal/once"
	"outrigger.dev/orchestrator/internal/uninstall"
)

const (
	flagDryRun  = "dry-run"
	flagAdopt   = "adopt"
	flagPrune   = "prune"
	flagVerify  = "verify"
	flagTimeout = "timeout"
)

// renderVersion is the version of Kubernetes that is rendered for without a cluster.
const renderVersion = "v1.36.0"

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
			&cli.BoolFlag{Name: flagAdopt, EnvVars: []string{"ADOPT"}, Usage: "take over objects that others manage"},
			&cli.BoolFlag{Name: flagPrune, EnvVars: []string{"PRUNE"}, Value: true, Usage: "delete objects that left the values"},
		},
	}, {
		Name: "delete", Usage: "delete everything that apply has applied, after the agents have cleaned up their nodes", Action: deleteCommand,
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
	if c.Bool(flagDryRun) {
		return a.Diff(c.Context)
	}
	return a.Run(c.Context)
}

// unowned returns an error if a ClusterPolicy says what is in the cluster.
func unowned(ctx context.Context, client *cluster.Client) error {
	gvr, _, err := client.Mapping(cluster.PolicyRef(""))
	if no := (*cluster.NoKindError)(nil); errors.As(err, &no) {
		return nil
	}
	if err != nil {
		return err
	}
	list, err := client.Metadata.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("list ClusterPolicies: %w", err)
	}
	if len(list.Items) > 0 {
		return fmt.Errorf("the ClusterPolicy %s says what is in this cluster: change its spec instead, with kubectl or the values of its Helm release", list.Items[0].Name)
	}
	return nil
}

func deleteCommand(c *cli.Context) error {
	client, store, err := read(c).open(c)
	if err != nil {
		return err
	}
	if err := unowned(c.Context, client); err != nil {
		return err
	}
	inv, err := store.Load(c.Context)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, c.Duration(flagTimeout))
	defer cancel()
	left, err := uninstall.Run(ctx, client, inv.Refs(), c.App.Writer)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err == nil {
		err = store.Delete(c.Context)
	}
	if !c.Bool(flagVerify) && err == nil {
		return nil
	}
	lines, verr := uninstall.Leftovers(c.Context, client)
	for _, r := range left {
		lines = append(lines, r.String())
	}
	for _, line := range lines {
		fmt.Fprintln(c.App.Writer, "left: "+line)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w; the nodes above did not clean up in time: run delete again once they are back", err)
	case verr != nil:
		return verr
	case len(lines) > 0:
		return fmt.Errorf("%d things are left in the cluster, listed above: remove them with kubectl, or start their nodes and run delete --verify again", len(lines))
	}
	fmt.Fprintln(c.App.Writer, "nothing is left")
	return nil
}
