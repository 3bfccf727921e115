package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/archive"
	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/read"
	"outrigger.dev/orchestrator/internal/table"
	"outrigger.dev/orchestrator/internal/view"
	"outrigger.dev/pkg/cmdline"
)

const (
	// gatherTimeout is the default time limit of must-gather.
	gatherTimeout = 10 * time.Minute
	// maxLogPods is the maximum number of pods whose logs are read.
	maxLogPods = 500
	// logParallel is the number of pods whose logs are read at the same time.
	logParallel = 8
)

func (s *settings) gatherCommand() *cli.Command {
	var dest string
	var timeout time.Duration
	return &cli.Command{
		Name: "must-gather", Usage: "write an archive without secrets that \"doctor --offline\" reads: objects, answers of agents, logs",
		Description: "The archive has at most 50 MB. Its file index.yaml lists the sizes, what was removed, and what could not be read.",
		Flags: []cli.Flag{
			&cli.StringFlag{
				Name: "dest", EnvVars: []string{"OUTRIGGER_DEST"}, Destination: &dest,
				Usage: "`PATH` of the archive: a file that ends in .tar.gz, or a folder; by default outrigger-must-gather-<time>.tar.gz",
			},
			cmdline.Positive(&cli.DurationFlag{Name: "timeout", EnvVars: []string{"OUTRIGGER_TIMEOUT"}, Value: gatherTimeout, Destination: &timeout, Usage: "`TIME` after which the archive has what was read until then"}),
		},
		Action: func(c *cli.Context) error {
			client, err := s.open()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context, timeout)
			defer cancel()
			progress := table.NewProgress(table.For(c.App.ErrWriter))
			defer progress.End()
			now := time.Now().UTC()
			g := &gather{client: client, log: read.Log, progress: progress, dest: cmp.Or(dest, "outrigger-must-gather-"+now.Format("20060102T150405Z")+".tar.gz")}
			result, err := g.run(ctx, now)
			progress.End()
			switch {
			case err == nil:
				return table.Print(table.For(c.App.Writer), s.output, result, result.write)
			case errors.Is(ctx.Err(), context.DeadlineExceeded):
				return fmt.Errorf("the nodes could not be read in %s, so the archive is removed: give it more time with --timeout", timeout)
			case ctx.Err() != nil:
				return errors.New("interrupted: the incomplete archive is removed")
			}
			return err
		},
	}
}

// gather writes an archive.
type gather struct {
	client *cluster.Client
	// log is read.Log.
	log      func(context.Context, *cluster.Client, read.LogName) (string, error)
	progress *table.Progress
	dest     string
	out      *archive.Writer
	// failed has the reasons why logs could not be read, with the number of logs.
	failed map[string]int
}

// gathered describes an archive.
type gathered struct {
	Path  string        `json:"path"`
	Bytes int64         `json:"bytes"`
	Index archive.Index `json:"index"`
}

func (g *gather) run(ctx context.Context, now time.Time) (result gathered, err error) {
	if g.out, err = archive.Create(g.dest, now, archive.MaxSize); err != nil {
		return gathered{}, err
	}
	defer func() {
		if err != nil {
			g.out.Abort()
		}
	}()
	f, err := read.Everything(ctx, read.Config{Client: g.client, Ask: true, Progress: func(step string) { g.progress.Step("%s", step) }})
	if err != nil {
		return gathered{}, err
	}
	g.progress.Step("writes the objects")
	g.out.Releases(releases(f))
	if err := g.out.Facts(f); err != nil {
		return gathered{}, err
	}
	if err := g.logs(ctx, f.Pods, read.Down(f.Nodes)); err != nil {
		return gathered{}, err
	}
	result.Path = g.dest
	result.Index, result.Bytes, err = g.out.Commit()
	return result, err
}

// releases returns the Helm releases of the agents, by the labels of their charts.
func releases(f facts.Facts) []archive.Release {
	var all []archive.Release
	for _, ds := range f.DaemonSets {
		if name := ds.Labels["app.kubernetes.io/instance"]; name != "" {
			all = append(all, archive.Release{Namespace: ds.Namespace, Name: name, Chart: ds.Labels["helm.sh/chart"]})
		}
	}
	slices.SortFunc(all, func(a, b archive.Release) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Chart, b.Chart))
	})
	return slices.Compact(all)
}

// logs writes the logs of the pods of agents. A node without an answer in time is not asked again, and at the deadline the archive has
// the logs until then.
func (g *gather) logs(ctx context.Context, pods []*corev1.Pod, down map[string]bool) error {
	agents := agentPods(pods)
	if left := len(agents) - maxLogPods; left > 0 {
		g.out.Unseen(fmt.Sprintf("logs of %d of %d pods", left, len(agents)), fmt.Sprintf("the logs of at most %d pods are read, of pods that are not ready first", maxLogPods))
		agents = agents[:maxLogPods]
	}
	g.failed = map[string]int{}
	done := 0
	for some := range slices.Chunk(agents, logParallel) {
		g.progress.Step("reads the logs of pod %d of %d: %s", done+1, len(agents), some[0].Name)
		if more, err := g.write(g.read(ctx, some, down)); err != nil {
			return err
		} else if !more {
			g.out.Unseen(fmt.Sprintf("logs of %d of %d pods", len(agents)-done, len(agents)), "the archive has no room for them")
			break
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return context.Cause(ctx)
		}
		done += len(some)
	}
	for why, count := range g.failed {
		g.out.Unseen(fmt.Sprintf("%d logs", count), why)
	}
	return nil
}

// fetched is a log, or why it could not be read.
type fetched struct {
	archive.Log

	node string
	err  error
}

// read reads the logs of some pods at the same time. It adds the nodes without an answer in time to down.
func (g *gather) read(ctx context.Context, pods []*corev1.Pod, down map[string]bool) (all []fetched) {
	logs := make([][]fetched, len(pods))
	var group sync.WaitGroup
	for i, p := range pods {
		logs[i] = logsOf(p)
		isDown := down[p.Spec.NodeName]
		group.Go(func() {
			for j := range logs[i] {
				l := &logs[i][j]
				if isDown {
					l.err = errDown
					continue
				}
				l.Text, l.err = g.log(ctx, g.client, read.LogName{Namespace: l.Namespace, Pod: l.Pod, Container: l.Container, Previous: l.Previous})
				isDown = errors.Is(l.err, context.DeadlineExceeded)
			}
		})
	}
	group.Wait()
	all = slices.Concat(logs...)
	for _, l := range all {
		if errors.Is(l.err, context.DeadlineExceeded) {
			down[l.node] = true
		}
	}
	return all
}

var errDown = errors.New("the node is not Ready, or did not answer in time")

// logsOf returns the logs of the containers of a pod, without their texts.
func logsOf(p *corev1.Pod) (all []fetched) {
	for _, status := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		for _, previous := range []bool{false, true} {
			if previous && status.RestartCount == 0 || !previous && status.State.Running == nil && status.State.Terminated == nil {
				continue
			}
			all = append(all, fetched{Log: archive.Log{Namespace: p.Namespace, Pod: p.Name, Container: status.Name, Previous: previous}, node: p.Spec.NodeName})
		}
	}
	return all
}

// write writes logs, and reports whether the archive had room for them.
func (g *gather) write(logs []fetched) (bool, error) {
	for _, l := range logs {
		if l.err != nil {
			g.fail(l.Pod, l.err)
			continue
		}
		if more, err := g.out.Log(l.Log); err != nil || !more {
			return more, err
		}
	}
	return true, nil
}

// agentPods returns the pods of agents: pods that are not ready first, then the newest.
func agentPods(pods []*corev1.Pod) []*corev1.Pod {
	agents := slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return facts.Agent(p.Labels) == "" })
	slices.SortStableFunc(agents, func(a, b *corev1.Pod) int {
		return cmp.Or(isReady(a)-isReady(b), b.CreationTimestamp.Compare(a.CreationTimestamp.Time))
	})
	return agents
}

// isReady returns 1 for a pod that is ready, and 0 for another pod.
func isReady(p *corev1.Pod) int {
	if facts.Ready(p) {
		return 1
	}
	return 0
}

// fail counts a log that could not be read. The reasons of most logs are the same except for the name of the pod.
func (g *gather) fail(pod string, err error) {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	why := strings.NewReplacer(` "`+pod+`"`, "", pod, "POD").Replace(err.Error())
	if g.failed[why] == 0 && len(g.failed) >= maxReasons {
		why = "other reasons"
	}
	g.failed[why]++
}

// maxReasons is the maximum number of reasons for logs that could not be read.
const maxReasons = 20

// write prints the archive for people.
func (r gathered) write(o table.Out) error {
	logs, removed := 0, 0
	for _, f := range r.Index.Files {
		if archive.IsLog(f.Name) {
			logs++
		}
	}
	for _, entry := range r.Index.Removed {
		removed += entry.Count
	}
	if _, err := fmt.Fprintf(o, "Wrote %s: %.1f MB, %d logs. %d secrets and values of environment variables were removed; the file index.yaml lists where.\n",
		r.Path, float64(r.Bytes)/1e6, logs, removed); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if err := view.WriteUnseen(o, r.Index.Unseen); err != nil {
		return err
	}
	_, err := fmt.Fprintf(o, "\nDiagnose it with: kubectl outrigger doctor --offline %s\n", r.Path)
	return err
}
