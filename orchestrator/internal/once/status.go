package once

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/inventory"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/pass"
	"outrigger.dev/orchestrator/internal/validation"
)

// Status derives the status of what an inventory lists from what is in the cluster now.
// Validations are not known: their results are with the one who asked for them.
func Status(ctx context.Context, client *cluster.Client, inv inventory.Inventory, log *slog.Logger) (model.Status, error) {
	ctx, cancel := context.WithCancel(ctx)
	o := observe.New(observe.Config{Client: client, Log: log})
	defer o.Wait()
	defer cancel()
	if err := o.Follow(ctx, inv.Refs(), nil); err != nil {
		return model.Status{}, err
	}
	for err := o.Listed(); err != nil; err = o.Listed() {
		select {
		case <-ctx.Done():
			return model.Status{}, fmt.Errorf("observe the cluster: %w", err)
		case <-o.Changed:
		}
	}
	stages, stageOf := listed(inv)
	state := o.State(model.Policy{Name: inv.Release, Generation: 1, Inventory: inv.Refs()}, stageOf, time.Now())
	for _, s := range stages {
		for _, object := range s.Objects {
			r := model.RefOf(object)
			seen, ok := state.Objects[r]
			switch {
			case ok && seen.Ours:
				// The object is as it was applied, as far as anyone can tell.
				seen.Applied = model.Hash(object)
				state.Objects[r] = seen
			case r.Kind == "Namespace":
				// That of somebody else is used as it is.
				state.Objects[r] = model.Seen{Ref: r}
			}
		}
	}
	return pass.Next(stages, state, validation.Next).Status, nil
}

// listed returns the stages of an inventory, with objects of which only the names are known.
func listed(inv inventory.Inventory) ([]model.Stage, map[model.Ref]string) {
	var stages []model.Stage
	stageOf := map[model.Ref]string{}
	for _, s := range inv.Stages {
		if s.Name == "" {
			continue
		}
		stage := model.Stage{Name: s.Name, Needs: s.Needs}
		for _, r := range s.Objects {
			o := &unstructured.Unstructured{}
			o.SetAPIVersion(r.APIVersion)
			o.SetKind(r.Kind)
			o.SetNamespace(r.Namespace)
			o.SetName(r.Name)
			stage.Objects = append(stage.Objects, o)
			stageOf[r] = s.Name
		}
		stages = append(stages, stage)
	}
	return stages, stageOf
}
