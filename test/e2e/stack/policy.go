package stack

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// The names of the umbrella chart's release, of its namespace and of its ClusterPolicy.
const (
	Umbrella          = "outrigger"
	OperatorNamespace = "gpu-operator"
	PolicyName        = "cluster-policy"
)

const (
	policyPath  = "/apis/outrigger.dev/v1alpha1/clusterpolicies/" + PolicyName
	lookAgainIn = 200 * time.Millisecond
)

// Policy has the fields of a ClusterPolicy that the demo and the tests read.
type Policy struct {
	Metadata struct{ Generation int64 }
	Spec     map[string]any
	Status   struct {
		State                string
		ObservedGeneration   int64
		GPUNodes, ReadyNodes int
		Conditions           []Condition
		Stages               []Stage
		Problems             []Problem
		Inventory            []struct{ APIVersion, Kind, Namespace, Name string }
	}
}

// Stage is one agent in the status of a ClusterPolicy.
type Stage struct {
	Name, State, Message   string
	Desired, Ready, Failed int
	Validations            []struct{ Name, State, Message string }
}

// Problem is one cause on some nodes.
type Problem struct {
	Cause, Stage, Message, Fix string
	Examples                   []string
}

// Current reports whether the status belongs to the current values.
func (p Policy) Current() bool {
	return p.Metadata.Generation > 0 && p.Status.ObservedGeneration == p.Metadata.Generation
}

// Ready reports whether GPUs can be used, and the current values are applied and validated everywhere.
func (p Policy) Ready() bool {
	progress := p.Condition("Progressing")
	return p.Current() && p.Status.State == "ready" && progress.Status == "False" && progress.ObservedGeneration == p.Metadata.Generation
}

// Condition returns a condition, or an empty one.
func (p Policy) Condition(name string) Condition {
	for _, c := range p.Status.Conditions {
		if c.Type == name {
			return c
		}
	}
	return Condition{}
}

// Policy returns the ClusterPolicy, or an empty one if it does not exist.
func (s *Stack) Policy(ctx context.Context) (Policy, error) {
	api, err := s.Admin()
	if err != nil {
		return Policy{}, err
	}
	defer api.Close()
	return readPolicy(ctx, api)
}

func readPolicy(ctx context.Context, api *API) (Policy, error) {
	var p Policy
	err := api.Get(ctx, policyPath, &p)
	if rejection := (*Rejection)(nil); errors.As(err, &rejection) && rejection.Code == http.StatusNotFound {
		return Policy{}, nil
	}
	return p, err
}

// FollowPolicy calls report with the ClusterPolicy, several times a second, until it is ready.
func (s *Stack) FollowPolicy(ctx context.Context, limit time.Duration, report func(Policy)) error {
	api, err := s.Admin()
	if err != nil {
		return err
	}
	defer api.Close()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(lookAgainIn)
	defer tick.Stop()
	for {
		p, err := readPolicy(ctx, api)
		if err != nil {
			return err
		}
		report(p)
		if p.Ready() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
