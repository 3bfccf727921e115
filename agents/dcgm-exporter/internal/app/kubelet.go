package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/reconcile"
)

// kubelet asks the kubelet which containers use the GPUs. It is nil outside of Kubernetes.
type kubelet struct {
	client    *podresources.Client
	resources []string
	// podEnded reports whether a pod has ended. It is nil if that is unknown.
	podEnded func(namespace, pod string) bool
	log      *slog.Logger
	status   reconcile.Status

	up, errors *prometheus.Desc
}

// openKubelet returns the client for the kubelet, or nil without --kubernetes. It does not
// connect yet.
func (s *settings) openKubelet(log *slog.Logger) (*kubelet, error) {
	if !s.kubernetes {
		return nil, nil //nolint:nilnil // as documented
	}
	client, err := podresources.New(podresources.Config{Socket: s.kubeletSocket})
	if err != nil {
		return nil, cmdline.Usagef("flag --pod-resources-kubelet-socket: %s", err)
	}
	return &kubelet{
		client: client, resources: s.resources, log: log,
		up: prometheus.NewDesc("exporter_pod_mapping_up", "1 while the kubelet says which containers use the GPUs, 0 while it does not.", nil, nil),
		errors: prometheus.NewDesc("exporter_pod_mapping_errors_total",
			"Times that the kubelet did not say which containers use the GPUs, by class of the failure.", []string{"class"}, nil),
	}, nil
}

// Refresh asks the kubelet again. It logs only the first of several failures in a row.
func (k *kubelet) Refresh(ctx context.Context, n *gpu.Node) error {
	err := k.client.Refresh(ctx, podresources.Options{Node: n, Resources: k.resources, Ended: k.podEnded})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if changed := k.status.Set(err); changed && err != nil {
		k.log.Warn("cannot ask the kubelet which pods use the gpus, retrying", "err", err)
	} else if changed {
		k.log.Info("the kubelet answers again")
	}
	return err
}

// Last returns the last answer.
func (k *kubelet) Last() podresources.Map { return k.client.Last().Map }

// Close ends the connection.
func (k *kubelet) Close() error {
	if k == nil {
		return nil
	}
	if err := k.client.Close(); err != nil {
		return errors.Join(errors.New("close the connection to the kubelet"), err)
	}
	return nil
}

func (k *kubelet) collectors() []prometheus.Collector {
	if k == nil {
		return nil
	}
	return []prometheus.Collector{k}
}

// Describe sends the descriptions of all metrics that Collect may send.
func (k *kubelet) Describe(ch chan<- *prometheus.Desc) {
	ch <- k.up
	ch <- k.errors
}

// Collect sends the current metrics.
func (k *kubelet) Collect(ch chan<- prometheus.Metric) {
	last := k.client.Last()
	up := 0.0
	if last.Err == nil && !last.At.IsZero() {
		up = 1
	}
	ch <- prometheus.MustNewConstMetric(k.up, prometheus.GaugeValue, up)
	for class, n := range last.Failures {
		ch <- prometheus.MustNewConstMetric(k.errors, prometheus.CounterValue, float64(n), string(class))
	}
}
