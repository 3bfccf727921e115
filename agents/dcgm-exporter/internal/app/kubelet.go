package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"

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

	up, errors, unknown *prometheus.Desc

	mu sync.Mutex
	// reported has the allocated devices in the kubelet's last answer that are unknown on the node.
	// count is the number of such devices since the start.
	reported map[podresources.Unknown]bool
	count    int
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
		unknown: prometheus.NewDesc("exporter_pod_mapping_unknown_devices_total",
			"Devices that the kubelet has allocated to containers, and that fit no GPU of the node: their pods are not known.", nil, nil),
	}, nil
}

// Refresh asks the kubelet again. It logs only the first of several failures in a row, and each unknown
// device once.
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
	if err == nil {
		k.report(k.client.Last().Unknown)
	}
	return err
}

// report counts and logs the devices of an answer that belong to no GPU of the node. It skips devices
// that the previous answer had too. It logs only the first of several new devices.
func (k *kubelet) report(found []podresources.Unknown) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.reported
	k.reported = map[podresources.Unknown]bool{}
	var added []podresources.Unknown
	for _, u := range found {
		if k.reported[u] = true; !before[u] {
			added = append(added, u)
		}
	}
	if len(added) == 0 {
		return
	}
	k.count += len(added)
	u := added[0]
	attrs := []any{"devices", len(added), "namespace", u.Namespace, "pod", u.Pod, "container", u.Container}
	if u.Claim == (podresources.Claim{}) {
		attrs = append(attrs, "resource", u.Resource, "id", u.ID)
	} else {
		attrs = append(attrs, "claim", u.Claim.Name, "driver", u.Claim.Driver, "pool", u.Claim.Pool, "device", u.Claim.Device)
	}
	k.log.Warn("devices of pods fit no gpu of this node, no metrics have the names of their pods", attrs...)
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
	ch <- k.unknown
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
	k.mu.Lock()
	defer k.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(k.unknown, prometheus.CounterValue, float64(k.count))
}
