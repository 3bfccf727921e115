package kubectl

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/archive"
	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/read"
	"outrigger.dev/orchestrator/internal/table"
)

// rack returns the agents of nodes, 6 on each, none ready.
func rack(nodes ...string) (pods []*corev1.Pod) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for _, node := range nodes {
		for i := range 6 {
			pods = append(pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: fmt.Sprintf("%s-%d", node, i), Labels: map[string]string{
					"app.kubernetes.io/part-of": "outrigger", "app.kubernetes.io/component": facts.DevicePlugin,
				}},
				Spec:   corev1.PodSpec{NodeName: node},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", RestartCount: 1, State: running}}},
			})
		}
	}
	return pods
}

// gatherLogs writes an archive with the logs of pods. A log of a node whose name begins with "hangs" takes 10 s, and fails.
func gatherLogs(t *testing.T, limit time.Duration, pods []*corev1.Pod, down map[string]bool) (index archive.Index, took time.Duration, asked map[string]int) {
	asked = map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		calls := make(chan string, 1000)
		out, err := archive.Create(filepath.Join(t.TempDir(), "a"), time.Now(), archive.MaxSize)
		assert.NilError(t, err)
		progress := table.NewProgress(table.Out{Writer: t.Output()})
		defer progress.End()
		g := &gather{out: out, progress: progress, log: func(ctx context.Context, _ *cluster.Client, l read.LogName) (string, error) {
			calls <- l.Pod[:len(l.Pod)-2]
			if strings.HasPrefix(l.Pod, "hangs") {
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				<-ctx.Done()
				return "", fmt.Errorf("read the log of gpu/%s: %w", l.Pod, ctx.Err())
			}
			return "text\n", ctx.Err()
		}}
		start := time.Now()
		assert.NilError(t, g.logs(ctx, pods, down))
		took = time.Since(start)
		index, _, err = out.Commit()
		assert.NilError(t, err)
		close(calls)
		for node := range calls {
			asked[node]++
		}
	})
	return index, took, asked
}

func logsIn(index archive.Index) (n int) {
	for _, f := range index.Files {
		if archive.IsLog(f.Name) {
			n++
		}
	}
	return n
}

// A rack of nodes that hang delays the archive by seconds, and costs only its own logs.
func TestLogsOfNodesThatHang(t *testing.T) {
	var nodes []string
	for i := range 20 {
		nodes = append(nodes, fmt.Sprintf("hangs%02d", i))
	}
	index, took, asked := gatherLogs(t, 10*time.Minute, rack(append(nodes, "works")...), map[string]bool{})
	for node, n := range asked {
		if node != "works" && n > logParallel {
			t.Errorf("%s is asked for %d logs", node, n)
		}
	}
	if logsIn(index) != 12 || took > 4*time.Minute {
		t.Errorf("%d logs in %s", logsIn(index), took)
	}
}

// Nodes that are not Ready are not asked.
func TestLogsOfNodesThatAreNotReady(t *testing.T) {
	index, took, asked := gatherLogs(t, 10*time.Minute, rack("hangs", "works"), map[string]bool{"hangs": true})
	if logsIn(index) != 12 || took > 0 || asked["hangs"] > 0 || len(index.Unseen) != 1 || index.Unseen[0].What != "12 logs" {
		t.Errorf("%d logs in %s, %d of the node are read, unseen %v", logsIn(index), took, asked["hangs"], index.Unseen)
	}
}

// At the deadline, the archive has the logs until then.
func TestLogsAtTheDeadline(t *testing.T) {
	index, took, _ := gatherLogs(t, 5*time.Second, rack("works", "hangs1", "hangs2"), map[string]bool{})
	if logsIn(index) != 12 || took > 6*time.Second || len(index.Unseen) == 0 {
		t.Errorf("%d logs in %s, unseen %v", logsIn(index), took, index.Unseen)
	}
}
