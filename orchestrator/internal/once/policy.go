package once

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/controller"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/pools"
)

// runController runs a controller with a as its policy, until the work is done or ctx ends.
func (a *Apply) runController(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ended bool
	var result error
	a.end = func(err error) { ended, result = true, err; cancel() }
	client := a.Store.Client
	c := controller.New(controller.Config{
		Client: client, Observer: observe.New(client, log), Policies: a, Log: log,
		Render: func(model.Policy, string, pools.Kinds) ([]model.Stage, error) { return a.Stages, nil }, Wrote: a.wrote, Passed: a.passed,
	})
	err := cmp.Or(c.Run(ctx), ctx.Err())
	if ended {
		return result
	}
	if reason := c.Ready(); reason != nil {
		err = reason
	} else if ready := meta.FindStatusCondition(a.policy.Status.Conditions, model.ConditionReady); ready != nil {
		err = fmt.Errorf("%s: %s", ready.Reason, ready.Message)
	}
	return fmt.Errorf("not ready in time: %w", err)
}

// passed stops the controller after the last write. Without Wait, it also stops the controller if
// an object cannot be written.
func (a *Apply) passed(s model.State, plan model.Plan) {
	a.left = plan.Left
	written := len(plan.Apply)+len(plan.Create)+len(plan.Delete)+len(plan.Left) == 0
	switch {
	case s.Policy.Deleting:
	case !s.Policy.Ungated:
		if c := plan.Status.Conditions; written && meta.IsStatusConditionTrue(c, model.ConditionReady) && meta.IsStatusConditionFalse(c, model.ConditionProgressing) {
			a.end(nil)
		}
	case len(s.Failures) > 0:
		a.end(errors.New(strings.Join(slices.Sorted(maps.Values(s.Failures)), "\n")))
	case written:
		a.end(nil)
	}
}

func (a *Apply) wrote(r model.Ref, now *unstructured.Unstructured) {
	before := a.live[r]
	switch {
	case now == nil:
		fmt.Fprintf(a.Out, "deleting %s\n", r)
	case before == nil:
		fmt.Fprintf(a.Out, "created %s\n", r)
	case before.GetResourceVersion() != now.GetResourceVersion():
		fmt.Fprintf(a.Out, "changed %s\n", r)
	default:
		fmt.Fprintf(a.Out, "unchanged %s\n", r)
	}
	if a.live != nil {
		a.live[r] = now
	}
}

// Current implements controller.Policies.
func (a *Apply) Current(context.Context) (model.Policy, bool, error) { return a.policy, true, nil }

// Publish implements controller.Policies. It does not write the record during a deletion: until the
// record is deleted with its namespace, it may list objects that are already gone.
func (a *Apply) Publish(ctx context.Context, p model.Policy, s model.Status) error {
	if !p.Deleting {
		if err := a.Store.Save(ctx, Record{Release: p.Release, Stages: stagesOf(a.Stages), Status: s}); err != nil {
			return err
		}
	}
	for _, stage := range s.Stages {
		at := slices.IndexFunc(p.Status.Stages, func(old model.StageStatus) bool { return old.Name == stage.Name })
		if !p.Ungated && (at < 0 || p.Status.Stages[at].State != stage.State || p.Status.Stages[at].Message != stage.Message) {
			fmt.Fprintf(a.Out, "%s: %s %s\n", stage.Name, stage.State, stage.Message)
		}
	}
	a.policy.Status = s
	return nil
}

// Report implements controller.Policies.
func (a *Apply) Report(_ context.Context, p model.Policy, events []model.Event) {
	for _, e := range events {
		switch {
		case e.Reason == model.ReasonNamespaceKept:
			fmt.Fprintf(a.Out, "left: %s\n", e.Message)
		case e.Warning && !p.Ungated && !p.Deleting:
			fmt.Fprintf(a.Out, "%s: %s\n", e.Reason, e.Message)
		}
	}
}

// Gone implements controller.Policies.
func (a *Apply) Gone(ctx context.Context, _ model.Policy) error {
	err := a.Store.Delete(ctx)
	if err == nil {
		a.end(nil)
	}
	return err
}
