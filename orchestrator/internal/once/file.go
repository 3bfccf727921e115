package once

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/controller"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
)

// file is a policy that values files describe. A Store has its status.
type file struct {
	store  Store
	policy model.Policy
	stages []model.Stage
	// stays are objects that left the values and are not deleted.
	stays []model.Ref
	// live are the objects that exist, to tell what changes.
	live map[model.Ref]*unstructured.Unstructured
	out  io.Writer

	// left is that of the last plan.
	left []string
	// end ends the controller, with err.
	end func(err error)
	err error
}

// run works as a controller does for a ClusterPolicy, until all is done or ctx ends.
func (f *file) run(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := false
	f.end = func(err error) { ended, f.err = true, err; cancel() }
	client := f.store.Client
	c := controller.New(controller.Config{
		Client: client, Observer: observe.New(observe.Config{Client: client, Log: log}), Policies: f, Log: log,
		Render: func(model.Policy, string) ([]model.Stage, error) { return f.stages, nil }, Wrote: f.wrote, Passed: f.passed,
	})
	err := c.Run(ctx)
	if ended {
		return f.err
	}
	if reason := c.Ready.Err(); reason != nil {
		err = reason
	} else if ready := meta.FindStatusCondition(f.policy.Status.Conditions, model.ConditionReady); ready != nil {
		err = fmt.Errorf("%s: %s", ready.Reason, ready.Message)
	}
	return fmt.Errorf("not ready in time: %w", err)
}

// passed ends the controller if there is nothing to do any more. Without waiting for the stages,
// it also ends when an object cannot be written.
func (f *file) passed(s model.State, plan model.Plan) {
	f.left = plan.Left
	written := len(plan.Apply)+len(plan.Create)+len(plan.Delete)+len(plan.Left) == 0
	switch {
	case s.Policy.Deleting:
	case !s.Policy.Ungated:
		if written && meta.IsStatusConditionTrue(plan.Status.Conditions, model.ConditionReady) {
			f.end(nil)
		}
	case len(s.Failures) > 0:
		f.end(errors.New(strings.Join(slices.Sorted(maps.Values(s.Failures)), "\n")))
	case written:
		f.end(f.refused(s.Objects, plan.Status))
	}
}

// refused returns why a stage was not applied.
func (f *file) refused(objects map[model.Ref]model.Seen, status model.Status) error {
	for _, st := range f.stages {
		missing := slices.ContainsFunc(st.Objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() != "Namespace" && objects[model.RefOf(o)].Applied != model.Hash(o)
		})
		at := slices.IndexFunc(status.Stages, func(s model.StageStatus) bool { return s.Name == st.Name })
		if missing && at >= 0 {
			return fmt.Errorf("stage %s: %s", st.Name, status.Stages[at].Message)
		}
	}
	return nil
}

func (f *file) wrote(r model.Ref, now *unstructured.Unstructured) {
	before := f.live[r]
	switch {
	case now == nil:
		fmt.Fprintf(f.out, "deleting %s\n", r)
	case before == nil:
		fmt.Fprintf(f.out, "created %s\n", r)
	case before.GetResourceVersion() != now.GetResourceVersion():
		fmt.Fprintf(f.out, "changed %s\n", r)
	default:
		fmt.Fprintf(f.out, "unchanged %s\n", r)
	}
	if f.live != nil {
		f.live[r] = now
	}
}

// Current implements controller.Policies.
func (f *file) Current(context.Context) (model.Policy, bool, error) { return f.policy, true, nil }

// Publish implements controller.Policies. A record is not written while it is deleted: it goes
// with its namespace, and may name what is gone.
func (f *file) Publish(ctx context.Context, p model.Policy, s model.Status) error {
	if !p.Deleting {
		rec := Record{Release: p.Release, Stages: stagesOf(f.stages), Status: s}
		rec.Status.Inventory = slices.Concat(f.stays, s.Inventory)
		if err := f.store.Save(ctx, rec); err != nil {
			return err
		}
	}
	for _, stage := range s.Stages {
		at := slices.IndexFunc(p.Status.Stages, func(old model.StageStatus) bool { return old.Name == stage.Name })
		if !p.Ungated && (at < 0 || p.Status.Stages[at].State != stage.State || p.Status.Stages[at].Message != stage.Message) {
			fmt.Fprintf(f.out, "%s: %s %s\n", stage.Name, stage.State, stage.Message)
		}
	}
	f.policy.Status = s
	return nil
}

// Report implements controller.Policies.
func (f *file) Report(_ context.Context, p model.Policy, events []model.Event) {
	for _, e := range events {
		if e.Warning && !p.Ungated && !p.Deleting {
			fmt.Fprintf(f.out, "%s: %s\n", e.Reason, e.Message)
		}
	}
}

// Gone implements controller.Policies.
func (f *file) Gone(ctx context.Context, _ model.Policy) error {
	err := f.store.Delete(ctx)
	if err == nil {
		f.end(nil)
	}
	return err
}
