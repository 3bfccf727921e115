package controller_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/cluster/clustertest"
	"outrigger.dev/orchestrator/internal/controller"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/render"
)

// rig is an API server.
type rig struct{ clustertest.Cluster }

// in returns the rig for a part of a test.
func (r *rig) in(t *testing.T) *rig { return &rig{r.Cluster.In(t)} }

// writeAs makes an object so as another field manager, which takes over all fields.
func (r *rig) writeAs(manager string, o *unstructured.Unstructured) {
	r.Helper()
	gvr, _, err := r.Client.Mapping(r.Context(), model.RefOf(o))
	if err != nil {
		r.Fatal(err)
	}
	resource := r.Client.Dynamic.Resource(gvr).Namespace(o.GetNamespace())
	if _, err := resource.Apply(r.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
		r.Fatal(err)
	}
}

// run runs a controller until the end of the test, and returns it.
func (r *rig) run(client *cluster.Client, policies func(*observe.Observer) controller.Policies, desired controller.Render) *controller.Controller {
	r.Helper()
	log := slog.New(slog.DiscardHandler)
	o := observe.New(client, log)
	c := controller.New(controller.Config{Client: client, Observer: o, Policies: policies(o), Render: desired, Log: log})
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Run(ctx)
	}()
	r.Cleanup(func() { cancel(); <-ended })
	return c
}

// policy is a policy in memory.
type policy struct {
	mu     sync.Mutex
	now    model.Policy
	events []model.Event
}

func (p *policy) Current(context.Context) (model.Policy, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, true, nil
}

func (p *policy) Publish(_ context.Context, _ model.Policy, s model.Status) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Status = s
	return nil
}

func (p *policy) Report(_ context.Context, _ model.Policy, events []model.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, events...)
}

func (*policy) Gone(context.Context, model.Policy) error { return nil }

func (p *policy) status() model.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now.Status
}

// told returns the messages of the Events with a reason.
func (p *policy) told(reason string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, e := range p.events {
		if e.Reason == reason {
			out = append(out, e.Message)
		}
	}
	return slices.Clip(out)
}

// configMap returns a ConfigMap of the orchestrator.
func configMap(name string, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": "default", "labels": map[string]any{render.ManagedBy: model.FieldManager}},
		"data":     data,
	}}
}
