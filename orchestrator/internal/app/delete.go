package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/util/wait"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/definition"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/once"
	"outrigger.dev/orchestrator/internal/uninstall"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/pace"
)

// deleteCommand deletes all ClusterPolicies, and the objects of "orchestrator apply". Helm runs it
// before it deletes the orchestrator.
func (s *settings) deleteCommand(ctx context.Context, c *cli.Context, store once.Store) error {
	log := agent.Logger(c)
	var left []string
	err := deletePolicies(ctx, store, log)
	if err == nil {
		left, err = once.Delete(ctx, store, c.App.Writer, log)
	}
	if err != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) || err == nil && !s.verify {
		return err
	}
	return verify(c, store.Client, left, err)
}

// deletePolicies deletes all ClusterPolicies, and waits until an orchestrator has deleted their
// objects. This process does that work if no orchestrator runs in the cluster.
func deletePolicies(ctx context.Context, store once.Store, log *slog.Logger) error {
	client := store.Client
	policies, err := observe.ListPolicies(ctx, client)
	if len(policies) == 0 || err != nil {
		return err
	}
	if reason, _, err := definition.Held(ctx, client, policies[0]); err != nil || reason != "" {
		return cmp.Or(err, errors.New(reason))
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) { runOperator(ctx, store, log) }, operatorPause)
	})
	defer running.Wait()
	defer cancel()
	backoff := pace.Backoff{First: 100 * time.Millisecond, Most: time.Second}
	for {
		policies, err := observe.ListPolicies(ctx, client)
		if err == nil && len(policies) == 0 {
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
		if !backoff.Pause(ctx) {
			return fmt.Errorf("wait for the deletion of the ClusterPolicy: %w; kubectl describe gpupolicy names the remaining objects", ctx.Err())
		}
	}
}

// operatorPause is the time after an error of the orchestrator until it runs again.
const operatorPause = time.Second

// runOperator runs the orchestrator until ctx ends, or an error occurs.
func runOperator(ctx context.Context, store once.Store, log *slog.Logger) {
	if err := connect(store, log).run(ctx); ctx.Err() == nil {
		log.Warn("the deletion was interrupted, retrying", "err", err)
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
