package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/facts"
)

const (
	// useLimit is the time limit for the metrics of all nodes.
	useLimit = 1500 * time.Millisecond
	// maxExporters is the maximum number of exporters that are asked.
	maxExporters = 100
	// useParallel is the number of exporters that are asked at the same time.
	useParallel = 16
	// maxMetrics is the maximum size of the metrics of a node, in bytes.
	maxMetrics = 8 << 20
)

// Use returns the metrics of the exporters among pods, by node, and why the metrics of other nodes with pods are missing, or
// "". It asks the exporters through the proxy of the API server, because their containers have no command that prints
// metrics. That needs the verb get on pods/proxy.
func Use(ctx context.Context, client *cluster.Client, pods []*corev1.Pod) (metrics map[string]string, why string) {
	ctx, cancel := context.WithTimeout(ctx, useLimit)
	defer cancel()
	var exporters []*corev1.Pod
	for _, p := range pods {
		if facts.Agent(p.Labels) == facts.Exporter && p.Spec.NodeName != "" && isReady(p) {
			exporters = append(exporters, p)
		}
	}
	if len(exporters) == 0 {
		return nil, "no pod of the agent " + facts.Exporter + " is ready"
	}
	var reasons []string
	if left := len(exporters) - maxExporters; left > 0 {
		reasons = append(reasons, fmt.Sprintf("%d exporters are not asked; name a node to see its GPUs", left))
		exporters = exporters[:maxExporters]
	}
	metrics = map[string]string{}
	var mu sync.Mutex
	var failed []error
	var group errgroup.Group
	group.SetLimit(useParallel)
	for _, p := range exporters {
		group.Go(func() error {
			text, err := scrape(ctx, client, p)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, err)
			} else {
				metrics[p.Spec.NodeName] = text
			}
			return nil
		})
	}
	_ = group.Wait()
	if len(failed) > 0 {
		first := slices.MinFunc(failed, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
		reasons = append(reasons, fmt.Sprintf("%d of %d exporters do not answer: %v", len(failed), len(exporters), explained(first)))
	}
	return metrics, strings.Join(reasons, "; ")
}

// explained adds the usual reason to the error of a proxy.
func explained(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "error trying to reach service") {
		return fmt.Errorf("%w; a NetworkPolicy that keeps the API server out, or an exporter that listens on localhost, has this effect", err)
	}
	return err
}

// scrape returns the metrics of an exporter.
func scrape(ctx context.Context, client *cluster.Client, p *corev1.Pod) (string, error) {
	port := "9400"
	for _, c := range p.Spec.Containers {
		for _, named := range c.Ports {
			if named.Name == "metrics" || named.Name == "gpu-metrics" {
				port = strconv.Itoa(int(named.ContainerPort))
			}
		}
	}
	answer, err := client.Core.Get().Namespace(p.Namespace).Resource("pods").Name(p.Name+":"+port).SubResource("proxy").Suffix("metrics").
		SetHeader("Accept", "text/plain").Stream(ctx)
	if err != nil {
		return "", fmt.Errorf("read the metrics of the pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	defer answer.Close()
	text, err := io.ReadAll(io.LimitReader(answer, maxMetrics))
	if err != nil {
		return "", fmt.Errorf("read the metrics of the pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return string(text), nil
}
