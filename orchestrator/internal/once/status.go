package once

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/pass"
)

// Status derives the status of the objects in a record from the current state of the cluster. It
// does not run validations, and returns their results from the record.
func Status(ctx context.Context, store Store, rec Record, log *slog.Logger) (model.Status, error) {
	ctx, cancel := context.WithCancel(ctx)
	o := observe.New(store.Client, log)
	defer o.Wait()
	defer cancel()
	if err := o.Follow(ctx, rec.Status.Inventory); err != nil {
		return model.Status{}, err
	}
	for err := o.Listed(); err != nil; err = o.Listed() {
		select {
		case <-ctx.Done():
			return model.Status{}, fmt.Errorf("observe the cluster: %w", err)
		case <-o.Changed:
		}
	}
	stages := rec.listed()
	// The hashes of the applied objects are not known. The objects count as applied, because the status is of this generation.
	state := o.State(model.Policy{
		Name: rec.Release, Generation: rec.Status.ObservedGeneration, Status: rec.Status,
	}, time.Now())
	for _, r := range model.Inventory(stages) {
		if _, seen := state.Objects[r]; !seen && r.Kind == "Namespace" {
			state.Objects[r] = model.Seen{Ref: r} // a Namespace of another manager is used unchanged
		}
	}
	return pass.Next(stages, state, nil).Status, nil
}

// listed returns the stages of a record. Their objects and validations have only names.
func (rec Record) listed() []model.Stage {
	validations := map[string][]model.Check{}
	for _, s := range rec.Status.Stages {
		for _, v := range s.Validations {
			validations[s.Name] = append(validations[s.Name], model.Check{Name: v.Name, Revision: v.Revision})
		}
	}
	var stages []model.Stage
	for _, s := range rec.Stages {
		stage := model.Stage{Name: s.Name, Pool: s.Pool, Needs: s.Needs, Validations: validations[s.Name]}
		for _, r := range s.Objects {
			stage.Objects = append(stage.Objects, r.Object())
		}
		stages = append(stages, stage)
	}
	return stages
}
