package once

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"outrigger.dev/orchestrator/internal/lease"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
)

// ErrNothing says that the cluster has no ClusterPolicy, and no record of "orchestrator apply".
var ErrNothing = errors.New("nothing is installed: there is no ClusterPolicy")

// Report is the status that the command status shows.
type Report struct {
	// Policy is the name of the ClusterPolicy in effect. It is empty for objects of "orchestrator apply".
	Policy string
	// Warning says that the status can be out of date. It ends in an empty line, or is empty.
	Warning string
	Status  model.Status
}

// Current returns the status of the ClusterPolicy in effect. Without a ClusterPolicy, it derives the status of the objects
// of the last "orchestrator apply". The error is ErrNothing if there are none.
func Current(ctx context.Context, store Store, log *slog.Logger) (Report, error) {
	policies, err := observe.ListPolicies(ctx, store.Client)
	if err != nil {
		return Report{}, err
	}
	if len(policies) > 0 {
		policy := policies[0]
		if policy.Unreadable != nil {
			return Report{}, policy.Unreadable
		}
		age, err := lease.StatusAge(ctx, store.Client)
		return Report{Policy: policy.Name, Warning: age, Status: policy.Status}, err
	}
	rec, err := store.Load(ctx)
	if err != nil {
		return Report{}, err
	}
	if len(rec.Stages) == 0 {
		return Report{}, fmt.Errorf("%w, and no ConfigMap %s in the namespace %s; run apply, or set --namespace", ErrNothing, Name, store.Namespace)
	}
	status, err := Status(ctx, store, rec, log)
	return Report{Status: status}, err
}
