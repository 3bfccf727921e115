package once

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"outrigger.dev/orchestrator/internal/controller"
	"outrigger.dev/orchestrator/internal/inventory"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
)

// errDone ends the controller once everything is ready.
var errDone = errors.New("everything is ready")

// Wait applies stage by stage, as a controller does for a ClusterPolicy: a stage is applied once
// those before it work and are validated. It returns the last status, and an error unless all
// is ready before ctx ends.
func (a *Apply) Wait(ctx context.Context, log *slog.Logger) (model.Status, error) {
	if err := a.look(ctx); err != nil {
		return model.Status{}, err
	}
	before, err := a.Store.Load(ctx)
	if err != nil {
		return model.Status{}, err
	}
	if err := a.namespaces(ctx); err != nil {
		return model.Status{}, err
	}
	ctx, done := context.WithCancelCause(ctx)
	defer done(nil)
	f := &file{apply: a, out: a.Out, done: done, policy: model.Policy{Name: a.Release, Release: a.Release, Generation: 1, Adopt: a.Adopt}}
	if a.Prune {
		f.policy.Inventory = before.Refs()
	} else {
		f.stays = before.Refs()
	}
	// Listed before they exist.
	if err := a.Store.Save(ctx, f.inventory(before.Refs())); err != nil {
		return model.Status{}, err
	}
	c := controller.New(controller.Config{
		Client: a.Client, Observer: observe.New(observe.Config{Client: a.Client, Log: log}), Policies: f, Log: log,
		Render: func(model.Policy, string) ([]model.Stage, error) { return a.Stages, nil },
	})
	err = c.Run(ctx)
	if errors.Is(context.Cause(ctx), errDone) {
		return f.policy.Status, nil
	}
	if reason := c.Ready.Err(); reason != nil {
		err = reason
	} else if ready := meta.FindStatusCondition(f.policy.Status.Conditions, model.ConditionReady); ready != nil {
		err = fmt.Errorf("%s: %s", ready.Reason, ready.Message)
	}
	return f.policy.Status, fmt.Errorf("not ready in time: %w", err)
}

// file is a policy that values files describe.
type file struct {
	apply  *Apply
	out    io.Writer
	policy model.Policy
	// stays are objects that left the values and are not deleted.
	stays []model.Ref
	done  context.CancelCauseFunc
}

func (f *file) inventory(refs []model.Ref) inventory.Inventory {
	return inventory.Of(f.apply.Release, f.apply.Stages).With(append(slices.Clone(refs), f.stays...))
}

// Current implements controller.Policies.
func (f *file) Current(context.Context) (model.Policy, bool, error) { return f.policy, true, nil }

// Publish implements controller.Policies.
func (f *file) Publish(ctx context.Context, p model.Policy, s model.Status) error {
	gone := slices.ContainsFunc(p.Inventory, func(r model.Ref) bool { return !slices.Contains(s.Inventory, r) })
	if gone {
		if err := f.apply.Store.Save(ctx, f.inventory(s.Inventory)); err != nil {
			return err
		}
	}
	for _, stage := range s.Stages {
		at := slices.IndexFunc(p.Status.Stages, func(old model.StageStatus) bool { return old.Name == stage.Name })
		if at < 0 || p.Status.Stages[at].State != stage.State || p.Status.Stages[at].Message != stage.Message {
			fmt.Fprintf(f.out, "%s: %s %s\n", stage.Name, stage.State, stage.Message)
		}
	}
	f.policy.Status, f.policy.Inventory = s, s.Inventory
	if meta.IsStatusConditionTrue(s.Conditions, model.ConditionReady) {
		f.done(errDone)
	}
	return nil
}

// Report implements controller.Policies.
func (f *file) Report(_ context.Context, _ model.Policy, events []model.Event) {
	for _, e := range events {
		if e.Warning {
			fmt.Fprintf(f.out, "%s: %s\n", e.Reason, e.Message)
		}
	}
}

// Gone implements controller.Policies.
func (*file) Gone(context.Context, model.Policy) error { return nil }
