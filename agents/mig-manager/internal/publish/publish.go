// Package publish keeps a ConfigMap with the MIG configs that are generated for the GPUs of a node, where
// NVIDIA's MIG manager publishes them.
package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/reconcile"
)

// The key of the ConfigMap, the suffix of its name, and its labels, as NVIDIA's MIG manager writes them.
const (
	key            = "config.yaml"
	suffix         = "-mig-config"
	componentLabel = "app.kubernetes.io/component"
	component      = "nvidia-mig-manager"
	nodeLabel      = "nvidia.com/node-name"
)

// maxLabelValue is the longest value of a label.
const maxLabelValue = 63

// Config configures a Publisher.
type Config struct {
	// Client needs the verbs get on pods, and create and patch on ConfigMaps, in Namespace.
	Client *kube.Client
	// Namespace and Pod name the agent's pod. The ConfigMap is in the same namespace, belongs to the
	// pod, and is deleted with it.
	Namespace, Pod string
	// Node is the name of the node.
	Node string
	// GPUs reads the GPUs of the node.
	GPUs func(ctx context.Context) ([]mig.GPU, error)
	Log  *slog.Logger
}

// Publisher keeps the ConfigMap.
type Publisher struct {
	cfg  Config
	loop *reconcile.Loop
	// published is the last content. The loop owns it.
	published string
}

// New returns a Publisher. It does nothing before Run.
func New(cfg Config) *Publisher {
	p := &Publisher{cfg: cfg}
	p.loop = reconcile.New(reconcile.Config{Name: "published configs", Step: p.step, Log: cfg.Log})
	return p
}

// Run publishes the configs until ctx ends. A nil Publisher returns at once.
func (p *Publisher) Run(ctx context.Context) error {
	if p == nil {
		return nil
	}
	return p.loop.Run(ctx)
}

// Changed makes the Publisher read the GPUs again. It does not block. A nil Publisher does nothing.
func (p *Publisher) Changed() {
	if p != nil {
		p.loop.Wake()
	}
}

// step publishes the configs if they have changed.
func (p *Publisher) step(ctx context.Context) (reconcile.Result, error) {
	gpus, err := p.cfg.GPUs(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	config, err := migconfig.Generate(gpus)
	if err != nil && !errors.Is(err, migconfig.ErrNoProfiles) {
		return reconcile.Result{}, err
	}
	data, err := config.YAML()
	if err != nil || string(data) == p.published {
		return reconcile.Result{}, err
	}
	if err := p.apply(ctx, string(data)); err != nil {
		return reconcile.Result{}, fmt.Errorf("publish the generated mig configs in ConfigMap %s/%s: %w", p.cfg.Namespace, p.cfg.Node+suffix, err)
	}
	p.published = string(data)
	p.cfg.Log.Info("published the generated mig configs", "namespace", p.cfg.Namespace, "config_map", p.cfg.Node+suffix, "configs", len(config.Entries))
	return reconcile.Result{}, nil
}

// apply writes the ConfigMap.
func (p *Publisher) apply(ctx context.Context, text string) error {
	var pod struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	if err := p.cfg.Client.Get(ctx, kube.Object{API: "v1", Resource: "pods", Namespace: p.cfg.Namespace, Name: p.cfg.Pod}, &pod); err != nil {
		return fmt.Errorf("read the agent's pod %s: %w", p.cfg.Pod, err)
	}
	labels := map[string]string{componentLabel: component}
	if len(p.cfg.Node) <= maxLabelValue {
		labels[nodeLabel] = p.cfg.Node
	}
	return p.cfg.Client.Apply(ctx, kube.Object{API: "v1", Resource: "configmaps", Namespace: p.cfg.Namespace, Name: p.cfg.Node + suffix}, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": p.cfg.Node + suffix, "namespace": p.cfg.Namespace, "labels": labels,
			"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": p.cfg.Pod, "uid": pod.Metadata.UID}},
		},
		"data": map[string]string{key: text},
	}, nil)
}
