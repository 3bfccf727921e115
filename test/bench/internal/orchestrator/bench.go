// Package orchestrator measures the orchestrator, or another program that installs the agents, on a
// real control plane. kwok plays the nodes and pods.
package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/test/bench/internal/process"
	"outrigger.dev/test/bench/internal/report"
	"outrigger.dev/test/cluster/cluster"
)

// Name is the name of the program and of its binary.
const Name = "orchestrator"

// Policy makes the orchestrator install all agents, with the defaults. It includes the namespaces and the
// accounts of the agents, which a Helm release would create.
const Policy = `apiVersion: v1
kind: Namespace
metadata: {name: gpu-operator}
---
apiVersion: v1
kind: Namespace
metadata: {name: gpu-operator-resources}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: cluster-policy-container-toolkit, namespace: gpu-operator-resources}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: cluster-policy-dcgm-exporter, namespace: gpu-operator-resources}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: cluster-policy-device-plugin, namespace: gpu-operator-resources}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: cluster-policy-feature-discovery, namespace: gpu-operator-resources}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: cluster-policy-feature-discovery-presence, namespace: gpu-operator-resources}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: cluster-policy-mig-manager, namespace: gpu-operator-resources}
---
apiVersion: outrigger.dev/v1alpha1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec: {}
`

// Kubeconfig stands for the path of a kubeconfig in the command line of a program.
const Kubeconfig = "{kubeconfig}"

// Config describes a measurement.
type Config struct {
	// Bin is the folder with the cluster's programs.
	Bin string
	// Before is a command that ends before the program starts. It may be empty.
	Before []string
	// Line is the program with its arguments. It may run until SIGTERM, or end by itself.
	Line []string
	// Manifest is applied after the start of the program. It may be empty.
	Manifest string
	// Nodes is the number of GPU nodes. NeverReady is how many of them never have a ready pod.
	Nodes, NeverReady int
	// Rest is the duration of each measurement after the roll-out.
	Rest time.Duration
	// Limit is the time limit of the roll-out.
	Limit time.Duration
	// Progress gets one line per step.
	Progress io.Writer
}

// Bench measures one program on one number of nodes.
type Bench struct {
	Config
	Report *report.Table

	scene   *scene
	program *process.Process
}

// Run measures all figures on a new cluster, and removes the cluster.
func (b *Bench) Run(ctx context.Context) (err error) {
	if b.NeverReady >= b.Nodes {
		return fmt.Errorf("measure %d nodes: %d of them never ready: at least one must get ready", b.Nodes, b.NeverReady)
	}
	if _, err := cluster.Open(); err == nil {
		return errors.New("start cluster: one is up on this machine; remove it first with cluster down")
	}
	dir, err := os.MkdirTemp("", "outrigger-bench-")
	if err != nil {
		return fmt.Errorf("create folder for logs: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := cluster.Up(ctx, cluster.Config{BinDir: b.Bin, Kwok: true, Progress: b.Progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Down(context.WithoutCancel(ctx), b.Progress)) }()
	if b.scene, err = newScene(c, b.Config, dir); err != nil {
		return err
	}
	defer b.scene.close()
	if err := b.scene.prepare(ctx); err != nil {
		return err
	}
	return b.measure(ctx, filepath.Join(dir, "program.log"))
}

// withKubeconfig returns a command line with the path of the kubeconfig.
func (b *Bench) withKubeconfig(words []string) []string {
	var line []string
	for _, word := range words {
		line = append(line, strings.ReplaceAll(word, Kubeconfig, b.scene.kubeconfig()))
	}
	return line
}

// runBefore runs the command before the program, if there is one.
func (b *Bench) runBefore(ctx context.Context) error {
	line := b.withKubeconfig(b.Before)
	if len(line) == 0 {
		return nil
	}
	if out, err := exec.CommandContext(ctx, line[0], line[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("run %s: %w: %s", strings.Join(line, " "), err, out)
	}
	return nil
}

// measure runs the program and measures it from its start to its rest.
func (b *Bench) measure(ctx context.Context, log string) (err error) {
	if err := b.runBefore(ctx); err != nil {
		return err
	}
	line := b.withKubeconfig(b.Line)
	before, err := machineLoad()
	if err != nil {
		return err
	}
	if b.program, err = process.Start(ctx, process.Config{Line: line, Log: log}); err != nil {
		return err
	}
	defer func() {
		// A program without a handler for SIGTERM ends with exit code -1.
		var exit *exec.ExitError
		if stop := b.program.Stop(); err == nil && (!errors.As(stop, &exit) || exit.ExitCode() >= 0) {
			err = stop
		}
	}()
	if b.Manifest != "" {
		if err := b.scene.apply(ctx, b.Manifest); err != nil {
			return fmt.Errorf("%w\n%s", err, b.program.Tail())
		}
	}
	done, err := b.rollout(ctx)
	if err != nil {
		return errors.Join(err, b.reportUnfinished())
	}
	if err := errors.Join(b.reportRollout(done, before), b.reportPasses(ctx)); err != nil {
		return err
	}
	if err := b.rest(ctx); err != nil {
		return err
	}
	if err := b.broken(ctx); err != nil {
		return err
	}
	if err := b.diagnose(ctx); err != nil {
		return err
	}
	return b.churn(ctx) // it replaces nodes
}

// rest measures the program after the roll-out, without changes in the cluster.
func (b *Bench) rest(ctx context.Context) error {
	if err := b.measureWindow(ctx, window{name: "a minute right after the roll-out"}); err != nil {
		return err
	}
	begin := time.Now()
	if err := b.measureWindow(ctx, window{name: "a minute at rest", goal: b.goals().rest}); err != nil {
		return err
	}
	seen, err := b.scene.requests(begin, time.Now())
	if err != nil {
		return err
	}
	b.add("writes at rest, Leases aside", report.Row{
		Value: float64(seen.writes), Unit: "calls", Goal: report.Goal{None: true}, Note: "in " + b.Rest.String(),
	})
	memory, err := b.program.Memory()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, b.program.Tail())
	}
	b.add("memory at rest", report.Row{Value: memory.RSS, Unit: "MiB", Goal: b.goals().memory, Note: fmt.Sprintf("%.1f MiB of it anonymous", memory.Anonymous)})
	return nil
}

// broken measures the program while one pod is not ready.
func (b *Bench) broken(ctx context.Context) error {
	pod, err := b.scene.readyPod(ctx)
	if err != nil {
		return err
	}
	err = b.measureWindow(ctx, window{
		name: "a minute with one pod not ready", begin: func() error { return b.scene.setReady(ctx, pod, false) }, goal: b.goals().broken,
	})
	return errors.Join(err, b.scene.setReady(ctx, pod, true))
}

// window is a period with a count of requests.
type window struct {
	name string
	// begin starts the change that the program has to handle. It may be nil.
	begin func() error
	goal  report.Goal
}

// measureWindow counts the requests in a window, and reports their number per minute.
func (b *Bench) measureWindow(ctx context.Context, w window) error {
	begin, cpu, err := b.now()
	if err != nil {
		return err
	}
	if w.begin != nil {
		if err := w.begin(); err != nil {
			return err
		}
	}
	if !pace.Pause(ctx, b.Rest) {
		return context.Cause(ctx)
	}
	end, after, err := b.now()
	if err != nil {
		return err
	}
	seen, err := b.scene.requests(begin, end)
	if err != nil {
		return err
	}
	b.add("requests in "+w.name, report.Row{
		Value: float64(seen.total) / b.Rest.Minutes(), Unit: "calls", Goal: w.goal,
		Note: fmt.Sprintf("in %s: %s; %s of CPU", b.Rest, seen, (after - cpu).Round(time.Millisecond)),
	})
	return nil
}

// now returns the time, and the processor time of the program so far.
func (b *Bench) now() (time.Time, time.Duration, error) {
	cpu, err := b.program.CPU()
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("watch %s: %w\n%s", b.Line[0], err, b.program.Tail())
	}
	return time.Now(), cpu, nil
}

// add adds a row with the program and the number of nodes.
func (b *Bench) add(what string, row report.Row) {
	row.Operation = fmt.Sprintf("%s, %d nodes: %s", filepath.Base(b.Line[0]), b.Nodes, what)
	b.Report.Add(row)
}
