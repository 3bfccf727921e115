package kubectl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/migrate"
	"outrigger.dev/orchestrator/internal/table"
)

// handOver hands components over, or prints what it would do.
func (m *migration) handOver(ctx context.Context, w, log io.Writer) error {
	components, err := m.components()
	if err != nil {
		return err
	}
	client, err := m.open()
	if err != nil {
		return err
	}
	began := time.Now()
	r := &migrate.Runner{Client: client.Dynamic, Nodes: m.nodes, Timeout: m.timeout, Poll: migratePoll, Settle: migrateSettle, Evict: m.evict, Explain: explainTo(client), OnReboot: m.driver == driverOnReboot, RebootTimeout: m.timeout, Progress: func(format string, args ...any) {
		fmt.Fprintf(log, "%7s  %s\n", time.Since(began).Round(time.Second), fmt.Sprintf(format, args...))
	}}
	if m.slow {
		r.RebootTimeout = rebootTimeout
	}
	steps := []migrate.Step{}
	for _, c := range components {
		if r.Timeout = m.timeout; m.slow && c.Name == migrate.Driver {
			r.Timeout = driverTimeout
		}
		if r.By = m.by; m.only == "" && c.Name == migrate.Driver {
			r.By = migrate.ByLabels
		}
		step, err := r.Step(ctx, c, m.undo)
		if err != nil {
			return err
		}
		if len(step.Nodes) > 0 || step.Policy != "" || m.only != "" {
			steps = append(steps, step)
		}
		if !m.yes {
			continue
		}
		if err := r.Run(ctx, step); err != nil {
			return err
		}
	}
	return table.Print(table.For(w), m.output, steps, func(o table.Out) error { return m.printSteps(o, steps) })
}

// components returns the components to hand over, in their order. Without --only, the driver is one of them only if it waits for
// reboots, or goes back.
func (m *migration) components() ([]migrate.Component, error) {
	all := migrate.Components()
	switch {
	case m.only != "":
		c, err := migrate.Named(m.only)
		if err != nil {
			return nil, err
		}
		if m.driver == driverOnReboot && c.Name != migrate.Driver {
			return nil, fmt.Errorf("--driver is for the driver: remove it, or remove --only %s", m.only)
		}
		return []migrate.Component{c}, nil
	case m.undo:
		slices.Reverse(all)
	case m.driver != driverOnReboot:
		all = slices.DeleteFunc(all, func(c migrate.Component) bool { return c.Name == migrate.Driver })
	}
	return all, nil
}

// explainTo returns a function that adds the fix to the error of a request. A migration uses the rights of its caller.
func explainTo(client *cluster.Client) func(error) error {
	return func(err error) error {
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return fmt.Errorf("API server %s: %w; use an account with the rights that docs/kubectl-outrigger.md lists for migrate", client.REST.Host, err)
		}
		return cluster.Explain(client.REST, err)
	}
}

func (m *migration) printSteps(o table.Out, steps []migrate.Step) error {
	for i, step := range steps {
		if m.yes && len(step.Nodes) > 0 {
			continue
		}
		if i > 0 {
			fmt.Fprintln(o)
		}
		fmt.Fprint(o, step.Text())
		if err := step.Check(); err != nil {
			fmt.Fprintf(o, "  first   %v\n", err)
		}
	}
	switch {
	case len(steps) == 0:
		fmt.Fprintln(o, "No node is left to hand over.")
	case m.yes:
		fmt.Fprintln(o, "Done.")
	default:
		fmt.Fprintln(o, "\nNothing has been changed: add --yes.")
	}
	return nil
}
