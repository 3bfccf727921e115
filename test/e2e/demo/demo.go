package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
)

const (
	passed = "Test PASSED"
	pod    = "vectoradd"
	// migPod runs after the GPUs were divided with migConfig, which makes migDevices MIG devices on
	// each GPU.
	migPod     = "vectoradd-mig"
	migConfig  = "all-1g.10gb"
	migDevices = 7
	// runtimeClass is the RuntimeClass of the container toolkit.
	runtimeClass = "nvidia"
	// driver is the version of the nodes' driver.
	driver = "580.95.05"
)

// demo starts the stack step by step, and prints the result.
func demo(ctx context.Context, out io.Writer) error {
	root, err := stack.FindRoot()
	if err != nil {
		return err
	}
	// The second node shows that nodes without GPUs stay clean.
	cfg := cluster.Config{Nodes: 2, GPUNodes: 1, GPUs: 8, Model: "h100-80", Bare: true, Progress: out}
	var s *stack.Stack
	var result, onMIG stack.PodResult
	start := time.Now()
	for _, step := range []struct {
		title string
		run   func() error
	}{
		{"start Kubernetes: 2 nodes, one with 8 simulated H100 and without a driver", func() (err error) {
			if s, err = stack.Up(ctx, root, cfg); err != nil {
				return err
			}
			return s.LoadDriver(ctx, driver, 0)
		}},
		{fmt.Sprintf("helm install outrigger charts/outrigger --namespace %s --create-namespace --set global.registry=outrigger.dev,driver.enabled=true,driver.repository=%s,driver.version=%s",
			stack.OperatorNamespace, stack.DriverRegistry, stack.DriverTag(driver)), func() error { return install(ctx, s) }},
		{"follow the orchestrator: it installs each agent, waits for a ready node, and validates", func() error { return follow(ctx, out, s, start) }},
		{"wait until the kubelet advertises the GPUs, and the Node reports them as ready", func() error {
			if err := undivide(ctx, s); err != nil {
				return err
			}
			if err := s.WaitAllocatable(ctx, s.GPUNodes()[0], stack.GPU, cfg.GPUs, time.Minute); err != nil {
				return err
			}
			return s.WaitGPUReady(ctx, s.GPUNodes()[0], time.Minute)
		}},
		{"run vectorAdd in a pod with the RuntimeClass " + runtimeClass + " that asks for nvidia.com/gpu: 1", func() (err error) {
			result, err = s.RunPod(ctx, stack.Pod{Name: pod, RuntimeClass: runtimeClass}, time.Minute)
			return err
		}},
		{fmt.Sprintf("divide each GPU into %d MIG devices: label the node with %s=%s", migDevices, stack.MIGConfig, migConfig), func() error {
			return divide(ctx, s, cfg.GPUs*migDevices)
		}},
		{"run vectorAdd in a pod that asks for nvidia.com/gpu: 1, which is a MIG device now", func() (err error) {
			onMIG, err = s.RunPod(ctx, stack.Pod{Name: migPod, RuntimeClass: runtimeClass}, time.Minute)
			return err
		}},
	} {
		fmt.Fprintf(out, "[%5.1f s] %s\n", time.Since(start).Seconds(), step.title)
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
	}
	fmt.Fprintf(out, "[%5.1f s] done\n\n", time.Since(start).Seconds())
	if err := errors.Join(report(ctx, out, s, result, onMIG), reportStart(ctx, out, s, result)); err != nil {
		return err
	}
	for _, r := range []stack.PodResult{result, onMIG} {
		if !strings.Contains(r.Log, passed) || len(r.GPUs) != 1 {
			return fmt.Errorf("the pod %s did not pass with exactly one GPU or MIG device; its log:\n%s", r.Name, r.Log)
		}
	}
	fmt.Fprint(out, "\nThe cluster is still up. Look around:  bin/cluster kubectl get pods -A\nRemove everything:                     make demo-down\n")
	return nil
}

// install installs the umbrella chart with Helm.
func install(ctx context.Context, s *stack.Stack) error {
	helm, err := s.Helm(stack.OperatorNamespace)
	if err != nil {
		return err
	}
	return helm.Install(ctx, stack.Umbrella, map[string]any{
		"driver": map[string]any{"enabled": true, "repository": stack.DriverRegistry, "version": stack.DriverTag(driver)},
	})
}

// undivide requests whole GPUs if an earlier demo on this cluster has divided them.
func undivide(ctx context.Context, s *stack.Stack) error {
	node := s.GPUNodes()[0]
	config, err := s.Kubectl(ctx, "get", "node", node, "-o", "jsonpath={.metadata.labels."+strings.ReplaceAll(stack.MIGConfig, ".", `\.`)+"}")
	if err != nil || config == "" {
		return err
	}
	_, err = s.Kubectl(ctx, "label", "node", node, "--overwrite", stack.MIGConfig+"=all-disabled")
	return err
}

// divide labels the GPU node, and waits until the MIG manager has made the MIG devices and the
// kubelet advertises n of them.
func divide(ctx context.Context, s *stack.Stack, n int) error {
	node := s.GPUNodes()[0]
	if _, err := s.Kubectl(ctx, "label", "node", node, "--overwrite", stack.MIGConfig+"="+migConfig); err != nil {
		return fmt.Errorf("label the node: %w", err)
	}
	if err := s.WaitAllocatable(ctx, node, stack.GPU, n, time.Minute); err != nil {
		return err
	}
	return s.WaitGPUReady(ctx, node, time.Minute)
}

// follow prints the state of each stage and validation when it changes, until all are ready.
func follow(ctx context.Context, out io.Writer, s *stack.Stack, start time.Time) error {
	shown := map[string]string{}
	say := func(name, state, message string) {
		if shown[name] != state {
			shown[name] = state
			fmt.Fprintf(out, "[%5.1f s]   %-32s %-12s %s\n", time.Since(start).Seconds(), name, state, message)
		}
	}
	return s.FollowPolicy(ctx, 2*time.Minute, func(p stack.Policy) {
		for _, stage := range p.Status.Stages {
			ready := ""
			if stage.Desired > 0 {
				ready = fmt.Sprintf("%d of %d nodes are ready", stage.Ready, stage.Desired)
			}
			say(stage.Name, stage.State, ready)
			for _, v := range stage.Validations {
				say("  "+v.Name, v.State, v.Message)
			}
		}
	})
}

// report prints a line for each node, and more lines for nodes with several pods.
func report(ctx context.Context, out io.Writer, s *stack.Stack, pods ...stack.PodResult) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NODE\tGPUS\tREADY\tALLOCATABLE\tPOD\tGPU SEEN IN THE POD\tRESULT")
	for _, node := range s.Nodes() {
		hardware, err := s.Hardware(ctx, node)
		if err != nil {
			return err
		}
		allocatable, err := s.Allocatable(ctx, node)
		if err != nil {
			return err
		}
		ready, err := s.GPUReady(ctx, node)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t", node, hardware, cmp.Or(ready, "-"), cmp.Or(allocatable, "-"))
		here := slices.DeleteFunc(slices.Clone(pods), func(p stack.PodResult) bool { return p.Node != node })
		if len(here) == 0 {
			fmt.Fprintln(w, "-\t-\t-")
		}
		for i, p := range here {
			if i > 0 {
				fmt.Fprint(w, "\t\t\t\t")
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, strings.Join(p.GPUs, ","), outcome(p))
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// outcome returns the result of vectorAdd in a pod.
func outcome(p stack.PodResult) string {
	if strings.Contains(p.Log, passed) {
		return passed
	}
	return "no " + passed
}

// reportStart prints how the container of the pod was started. It returns an error if the container
// toolkit did not start it.
func reportStart(ctx context.Context, out io.Writer, s *stack.Stack, result stack.PodResult) error {
	start, err := s.Started(ctx, pod)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\ncontainerd on %s started the container of %s with %s, which ran the hook %s.\n",
		result.Node, pod, cmp.Or(start.Runtime, "its default runtime"), cmp.Or(strings.Join(start.Hooks, ", "), "(none)"))
	if !start.ByToolkit() {
		return fmt.Errorf("the container was not started by the tools in %s", stack.Tools)
	}
	return nil
}
