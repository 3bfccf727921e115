package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/uninstall"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/pace"
)

// deleteCommand deletes all ClusterPolicies and what apply has applied. Helm runs it before it
// deletes the orchestrator.
func deleteCommand(c *cli.Context) error {
	s := read(c)
	client, store, err := s.open(c)
	if err != nil {
		return err
	}
	log, err := agent.Logger(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, c.Duration(flagTimeout))
	defer cancel()
	err = deletePolicies(ctx, s, client, log)
	if errors.Is(err, context.DeadlineExceeded) && c.Bool(flagVerify) {
		return verify(c, client, nil, err)
	}
	if err != nil {
		return err
	}
	inv, err := store.Load(ctx)
	if err != nil {
		return err
	}
	left, err := uninstall.Run(ctx, client, inv.Refs(), c.App.Writer)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err == nil {
		err = store.Delete(ctx)
	}
	if !c.Bool(flagVerify) && err == nil {
		return nil
	}
	return verify(c, client, left, err)
}

// deletePolicies deletes all ClusterPolicies, and waits until the orchestrator has deleted what
// they brought. If none works in the cluster, this process does its work.
func deletePolicies(ctx context.Context, s settings, client *cluster.Client, log *slog.Logger) error {
	name, err := inEffect(ctx, client)
	if name == "" || err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(ctx, s, client, log)
	}()
	defer func() { cancel(); <-done }()
	for name != "" {
		r := cluster.PolicyRef(name)
		if err := client.Delete(ctx, r, ""); err != nil {
			return err
		}
		log.Info("deleting what a policy brought", "policy", name)
		if err := uninstall.Gone(ctx, client, r); err != nil {
			return fmt.Errorf("wait until %s is gone: %w; kubectl describe shows what it waits for", r, err)
		}
		if name, err = inEffect(ctx, client); err != nil {
			return err
		}
	}
	return nil
}

// work is the orchestrator until ctx ends, also after errors.
func work(ctx context.Context, s settings, client *cluster.Client, log *slog.Logger) {
	backoff := pace.Backoff{First: time.Second, Most: 10 * time.Second}
	for {
		err := connect(s, client, log).run(ctx)
		if ctx.Err() != nil {
			return
		}
		log.Warn("the deletion was interrupted, going on", "err", err)
		if !backoff.Pause(ctx) {
			return
		}
	}
}

// verify lists what is left in the cluster, and returns an error if there is something, or if
// the deletion ended with one.
func verify(c *cli.Context, client *cluster.Client, left []model.Ref, err error) error {
	lines, unknown := uninstall.Leftovers(c.Context, client)
	for _, r := range left {
		lines = append(lines, r.String())
	}
	for _, line := range lines {
		fmt.Fprintln(c.App.Writer, "left: "+line)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w; what is listed above was not gone in time: run delete again once its nodes are back", err)
	case unknown != nil:
		return unknown
	case len(lines) > 0:
		return fmt.Errorf("%d things are left in the cluster, listed above: remove them with kubectl, or start their nodes and run delete --verify again", len(lines))
	}
	fmt.Fprintln(c.App.Writer, "nothing is left")
	return nil
}
