package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/definition"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/once"
	"outrigger.dev/orchestrator/internal/uninstall"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/pace"
)

// deleteCommand deletes all ClusterPolicies, and the objects of "orchestrator apply". Helm runs it
// before it deletes the orchestrator.
func (s *settings) deleteCommand(c *cli.Context) error {
	ctx, cancel := context.WithTimeout(c.Context, s.timeout)
	defer cancel()
	log := agent.Logger(c)
	store, err := s.openStore()
	if err != nil {
		return err
	}
	if _, err := store.Client.Version(ctx); err != nil {
		return err
	}
	own, err := namespaces(ctx, store)
	if err != nil {
		return err
	}
	var left []string
	err = deletePolicies(ctx, store, log)
	if err == nil {
		left, err = once.Delete(ctx, store, c.App.Writer, log)
	}
	if err == nil {
		err = reportKept(ctx, store.Client, own, c.App.Writer)
	}
	if err != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) || err == nil && !s.verify {
		return err
	}
	return verify(c, store.Client, left, err)
}

// namespaces returns the namespaces that the orchestrator created. They are deleted unless they
// contain objects of other programs.
func namespaces(ctx context.Context, store once.Store) ([]model.Ref, error) {
	rec, err := store.Load(ctx)
	if err != nil {
		return nil, err
	}
	policy, _, err := inEffect(ctx, store.Client)
	if err != nil {
		return nil, err
	}
	var own []model.Ref
	for _, r := range slices.Concat(rec.Status.Inventory, policy.Status.Inventory) {
		if r.Kind != "Namespace" {
			continue
		}
		o, err := store.Client.Get(ctx, r)
		if err != nil {
			return nil, err
		}
		if o != nil && cluster.Ours(o) {
			own = append(own, r)
		}
	}
	return own, nil
}

// reportKept writes a line for each namespace in own that is kept because it contains objects of
// other programs.
func reportKept(ctx context.Context, client *cluster.Client, own []model.Ref, out io.Writer) error {
	for _, r := range own {
		o, err := client.Get(ctx, r)
		if err != nil {
			return err
		}
		if o == nil {
			continue
		}
		others, err := client.Others(ctx, r.Name)
		if err != nil {
			return err
		}
		// If the namespace has no objects of other programs, its deletion is still in progress.
		if len(others) > 0 {
			fmt.Fprintln(out, "left: "+cluster.KeptMessage(r, others))
		}
	}
	return nil
}

// deletePolicies deletes all ClusterPolicies, and waits until an orchestrator has deleted their
// objects. This process does that work if no orchestrator runs in the cluster.
func deletePolicies(ctx context.Context, store once.Store, log *slog.Logger) error {
	client := store.Client
	policy, ok, err := inEffect(ctx, client)
	if !ok || err != nil {
		return err
	}
	if reason, _, err := definition.Held(ctx, client, policy); err != nil || reason != "" {
		return cmp.Or(err, errors.New(reason))
	}
	ctx, cancel := context.WithCancel(ctx)
	o := observe.New(client, log)
	defer o.Wait()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runOperator(ctx, store, log)
	}()
	defer func() { cancel(); <-done }()
	if err := o.FollowPolicies(ctx); err != nil {
		return err
	}
	for {
		policies := o.Policies()
		if o.Listed() == nil && len(policies) == 0 {
			return nil
		}
		for _, p := range policies {
			if p.Deleting {
				continue
			}
			log.Info("deleting the objects of a policy", "policy", p.Name)
			if err := client.Delete(ctx, cluster.PolicyRef(p.Name), p.UID); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the deletion of the ClusterPolicy: %w; kubectl describe clusterpolicy names the remaining objects", ctx.Err())
		case <-o.Changed:
		}
	}
}

// runOperator runs the orchestrator until ctx ends. It restarts the orchestrator after errors.
func runOperator(ctx context.Context, store once.Store, log *slog.Logger) {
	backoff := pace.Backoff{First: time.Second, Most: 10 * time.Second}
	for {
		err := connect(store, log).run(ctx)
		if ctx.Err() != nil {
			return
		}
		log.Warn("the deletion was interrupted, retrying", "err", err)
		if !backoff.Pause(ctx) {
			return
		}
	}
}

// verify prints what remains in the cluster. It returns an error if something remains, or if err is
// not nil.
func verify(c *cli.Context, client *cluster.Client, left []string, err error) error {
	lines, unknown := uninstall.Leftovers(c.Context, client)
	lines = append(lines, left...)
	for _, line := range lines {
		fmt.Fprintln(c.App.Writer, "left: "+line)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w; the items listed above were not deleted in time: run delete again when their nodes are back", err)
	case unknown != nil:
		return unknown
	case len(lines) > 0:
		return fmt.Errorf("%d items are left in the cluster, listed above: remove them with kubectl, or start their nodes and run delete --verify again", len(lines))
	}
	fmt.Fprintln(c.App.Writer, "nothing is left on the nodes")
	return nil
}
