package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
)

// firstPod is the row of the pod that waits for the first GPU.
const firstPod = "first GPU pod has computed"

// times are the times from "helm install" until a state, the shortest first.
type times struct {
	state string
	after []time.Duration
}

// median returns the median of the times.
func (t times) median() time.Duration { return t.after[len(t.after)/2] }

// measure returns the times from "helm install" until each stage works and until a pod has
// computed on a GPU. Each of n times, Helm installs and uninstalls the umbrella chart on a cluster that measure
// starts and removes. The nodes have the driver and all images.
func measure(ctx context.Context, n int) (states []times, err error) {
	s, err := stack.Fresh(ctx, cluster.Config{Nodes: 2, GPUNodes: 1, GPUs: 8, Model: "h100-80", Progress: io.Discard})
	if err != nil {
		return nil, err
	}
	defer func() {
		if down := s.Down(context.WithoutCancel(ctx)); err == nil {
			err = down
		}
	}()
	helm, err := s.Helm(stack.OperatorNamespace)
	if err != nil {
		return nil, err
	}
	for i := range n {
		reached := map[string]bool{}
		if err := installation(ctx, s, helm, func(state string, after time.Duration) {
			if reached[state] {
				return
			}
			reached[state] = true
			at := slices.IndexFunc(states, func(t times) bool { return t.state == state })
			if at < 0 {
				at, states = len(states), append(states, times{state: state})
			}
			states[at].after = append(states[at].after, after)
		}); err != nil {
			return nil, fmt.Errorf("installation %d: %w", i+1, err)
		}
		if err := remove(ctx, s, helm); err != nil {
			return nil, fmt.Errorf("installation %d: %w", i+1, err)
		}
	}
	for _, t := range states {
		slices.Sort(t.after)
	}
	return states, nil
}

func printTimes(out io.Writer, states []times) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "AFTER \"helm install\"\tMEDIAN\tMIN\tMAX\tTIMES")
	for _, t := range states {
		n := len(t.after)
		fmt.Fprintf(w, "%s\t%.1f s\t%.1f s\t%.1f s\t%d\n", t.state, t.median().Seconds(), t.after[0].Seconds(), t.after[n-1].Seconds(), n)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// target is the time in seconds within which the first GPU pod must have computed.
const target = 10

// saveTimes writes the medians in the format of bench to a file in folder. It does nothing if folder is empty.
func saveTimes(folder string, states []times, now time.Time) error {
	if folder == "" {
		return nil
	}
	var rows []map[string]any
	for _, t := range states {
		row := map[string]any{
			"operation": "helm install → " + t.state, "value": t.median().Seconds(), "unit": "s",
			"note": fmt.Sprintf("%.1f s to %.1f s, %d times", t.after[0].Seconds(), t.after[len(t.after)-1].Seconds(), len(t.after)),
		}
		if t.state == firstPod {
			row["goal"] = map[string]any{"target": target}
		}
		rows = append(rows, row)
	}
	text, err := json.MarshalIndent(map[string]any{"date": now.Format(time.DateOnly), "rows": rows}, "", "  ")
	if err != nil {
		return fmt.Errorf("save results: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("save results: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "demo.json"), append(text, '\n'), 0o644); err != nil { //nolint:gosec // results are public
		return fmt.Errorf("save results: %w", err)
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
