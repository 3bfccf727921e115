package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
)

// firstPod is the row of the pod that waits for the first GPU.
const firstPod = "first GPU pod has computed"

// measure prints the median times from "helm install" until each stage works and until a pod has
// computed on a GPU. Each time, Helm installs and uninstalls the umbrella chart on a cluster that it
// starts and removes. The nodes have the driver and all images.
func measure(ctx context.Context, out io.Writer, times int) (err error) {
	s, err := stack.Fresh(ctx, cluster.Config{Nodes: 2, GPUNodes: 1, GPUs: 8, Model: "h100-80", Progress: io.Discard})
	if err != nil {
		return err
	}
	defer func() {
		if down := s.Down(context.WithoutCancel(ctx)); err == nil {
			err = down
		}
	}()
	helm, err := s.Helm(stack.OperatorNamespace)
	if err != nil {
		return err
	}
	rows := []string{}
	taken := map[string][]time.Duration{}
	for i := range times {
		if err := installation(ctx, s, helm, func(row string, t time.Duration) {
			if len(taken[row]) == i { // the first time counts
				taken[row] = append(taken[row], t)
			}
			if !slices.Contains(rows, row) {
				rows = append(rows, row)
			}
		}); err != nil {
			return fmt.Errorf("installation %d: %w", i+1, err)
		}
		if err := remove(ctx, s, helm); err != nil {
			return fmt.Errorf("installation %d: %w", i+1, err)
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "AFTER \"helm install\", %d TIMES\tMEDIAN\tMIN\tMAX\n", times)
	for _, row := range rows {
		t := slices.Sorted(slices.Values(taken[row]))
		fmt.Fprintf(w, "%s\t%.1f s\t%.1f s\t%.1f s\n", row, t[len(t)/2].Seconds(), t[0].Seconds(), t[len(t)-1].Seconds())
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// installation installs the umbrella chart, and reports when each stage is ready and when a pod that
// asks for a GPU has computed.
func installation(ctx context.Context, s *stack.Stack, helm *stack.Helm, reached func(row string, after time.Duration)) error {
	start := time.Now()
	if err := helm.Install(ctx, stack.Umbrella, map[string]any{}); err != nil {
		return err
	}
	reached("helm has returned", time.Since(start))
	type result struct {
		pod   stack.PodResult
		after time.Duration
		err   error
	}
	ended := make(chan result, 1)
	go func() {
		p, err := s.RunVectorAdd(ctx, pod, 2*time.Minute)
		ended <- result{p, time.Since(start), err}
	}()
	following := s.FollowPolicy(ctx, 2*time.Minute, func(p stack.Policy) {
		for _, stage := range p.Status.Stages {
			if stage.Ready > 0 {
				reached("stage "+stage.Name, time.Since(start))
			}
		}
		if p.Status.State == "ready" {
			reached("ClusterPolicy is ready", time.Since(start))
		}
	})
	got := <-ended
	if got.err != nil {
		return got.err
	}
	if following != nil {
		return following
	}
	if outcome(got.pod) != passed {
		return fmt.Errorf("the pod did not pass:\n%s", got.pod.Log)
	}
	reached(firstPod, got.after)
	return nil
}

// remove uninstalls the chart, and deletes the objects that it leaves.
func remove(ctx context.Context, s *stack.Stack, helm *stack.Helm) error {
	if _, err := s.Kubectl(ctx, "delete", "pod", pod, "--wait"); err != nil {
		return err
	}
	if err := helm.Uninstall(stack.Umbrella); err != nil {
		return err
	}
	_, err := s.Kubectl(ctx, "delete", "namespace", stack.Namespace, "--ignore-not-found", "--wait")
	return err
}
