package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"outrigger.dev/agents/dcgm-exporter/internal/podinfo"
)

func TestLabelsOfAPodAreBounded(t *testing.T) {
	labels := func(n int) []podinfo.Label {
		out := make([]podinfo.Label, n)
		for i := range out {
			out[i] = podinfo.Label{Name: fmt.Sprintf("label_%058d", i), Value: strings.Repeat("x", 64)} // 128 bytes
		}
		return out
	}
	for name, c := range map[string]struct {
		labels, omitted, uses int
		served                int
	}{
		"no labels":                                 {uses: 1},
		"labels of a usual pod":                     {labels: 32, uses: 1, served: 32},
		"labels that fill the bound of a pod":       {labels: 8000, uses: 1, served: 32},
		"labels that were not kept":                 {labels: 32, omitted: 7000, uses: 1, served: 32},
		"as many users as have the whole bound":     {labels: 8000, uses: 64, served: 32},
		"users that share the bound of the node":    {labels: 8000, uses: 256, served: 8},
		"more users than the node has bytes for":    {labels: 8000, uses: 1 << 20},
		"a pod whose device has no user any more":   {labels: 8000, served: 32},
		"a usual pod on a node with a lot of users": {labels: 8, uses: 256, served: 8},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			b := newLabelBound(slog.New(slog.NewTextHandler(&log, nil)))
			pod := podinfo.Pod{Namespace: "ml", Name: "train", UID: "uid-1", Labels: labels(c.labels), Omitted: c.omitted}
			for range 3 {
				if got := b.apply(pod, c.uses); len(got) != c.served {
					t.Errorf("%d labels are served, want %d", len(got), c.served)
				}
			}
			dropped, lines := c.labels+c.omitted-c.served, 0
			if dropped > 0 {
				lines = 1
			}
			if got := strings.Count(log.String(), "namespace=ml pod=train"); got != lines {
				t.Errorf("the log has %d lines about the pod, want %d: %s", got, lines, log.String())
			}
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(b)
			served, err := registry.Gather()
			if err != nil || len(served) != 1 || served[0].GetName() != "exporter_pod_labels_dropped_total" ||
				served[0].GetMetric()[0].GetCounter().GetValue() != float64(dropped) {
				t.Errorf("the metrics are %v, %v, want %d labels", served, err, dropped)
			}
		})
	}
}
