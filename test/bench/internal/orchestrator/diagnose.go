package orchestrator

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/test/bench/internal/process"
	"outrigger.dev/test/bench/internal/report"
)

const (
	// plugin is the plugin of kubectl, in the folder of the orchestrator.
	plugin = "kubectl-outrigger"
	// brokenPart is the part of the nodes that is broken: 200 of 5,000. leastBroken has each reason once.
	brokenPart, leastBroken = 25, 3
	// diagnoses is how often a command runs. Its median counts.
	diagnoses = 3
	// quietLimit and quietWindow limit the wait for a machine that is not busy.
	quietLimit, quietWindow = 2 * time.Minute, 5 * time.Second
)

// diagnose measures the commands of the plugin that read a whole cluster, while 4 % of the nodes are broken.
func (b *Bench) diagnose(ctx context.Context) error {
	if filepath.Base(b.Line[0]) != Name {
		return nil
	}
	broken := max(leastBroken, b.Nodes/brokenPart)
	if err := b.scene.breakNodes(ctx, broken); err != nil {
		return err
	}
	fmt.Fprintf(b.Progress, "%d nodes are broken\n", broken)
	if err := quiet(ctx); err != nil {
		return err
	}
	for _, c := range []struct {
		command, name string
		// code is the exit code: doctor and status find nodes that have failed.
		code int
		goal report.Goal
	}{
		{"doctor", fmt.Sprintf("doctor, %d nodes, %d broken", b.Nodes, broken), 4, report.Goal{Target: 3}},
		{"status", fmt.Sprintf("status, %d nodes", b.Nodes), 4, report.Goal{Target: 2}},
		{"top", fmt.Sprintf("top, %d nodes", b.Nodes), 0, report.Goal{}},
	} {
		line := fmt.Sprintf("%s %s --kubeconfig=%s >/dev/null; [ $? -eq %d ]",
			filepath.Join(filepath.Dir(b.Line[0]), plugin), c.command, b.scene.kubeconfig(), c.code)
		var walls []time.Duration
		var peak float64
		for range diagnoses {
			spent, err := process.Once(ctx, "sh", "-c", line)
			if err != nil {
				return err
			}
			walls, peak = append(walls, spent.Wall), max(peak, spent.Peak)
		}
		slices.Sort(walls)
		b.Report.Add(report.Row{Operation: c.name, Value: walls[len(walls)/2].Seconds(), Unit: "s", Goal: c.goal})
		b.Report.Add(report.Row{Operation: c.name + ": peak memory", Value: peak, Unit: "MiB", Goal: report.Goal{Target: 150}})
	}
	return nil
}

// quiet waits until the cluster has handled the changes: until the machine is less than half busy for some seconds, or quietLimit
// is over.
func quiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, quietLimit)
	defer cancel()
	before, err := machineLoad()
	for err == nil && pace.Pause(ctx, quietWindow) {
		now, failed := machineLoad()
		if 2*(now.busy-before.busy) < now.total-before.total {
			break
		}
		before, err = now, failed
	}
	return err
}

// breakNodes sets the condition GPUReady of all nodes, as feature discovery does: it is False on the broken ones, each third
// of them for the same reason.
func (s *scene) breakNodes(ctx context.Context, broken int) error {
	reasons := []string{"DriverNotFound", "AllGPUsFaulty", "ToolkitNotReady"}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	long := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for i := range s.nodes {
		ready := map[string]any{"type": "GPUReady", "status": "True", "reason": "Ready", "message": "8 GPUs answer", "lastTransitionTime": long}
		if i < broken {
			ready["status"], ready["reason"], ready["message"] = "False", reasons[i%len(reasons)], "the node is broken for the benchmark"
		}
		group.Go(func() error {
			path := "/api/v1/nodes/" + nodeName(i, s.neverReady) + "/status"
			return s.do(ctx, http.MethodPatch, path, map[string]any{"status": map[string]any{"conditions": []any{ready}}}, nil)
		})
	}
	return group.Wait()
}
