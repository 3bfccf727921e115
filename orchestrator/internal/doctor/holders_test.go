package doctor_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
)

// exporter adds the exporter of a node and its answer.
func (c *cluster) exporter(on, output, failure string) *corev1.Pod {
	p := c.agent(facts.DevicePlugin, on).DeepCopy()
	p.Name, p.Labels["app.kubernetes.io/component"], p.Spec.HostPID = facts.Exporter+"-"+on, facts.Exporter, true
	c.Pods = append(c.Pods, p)
	c.answers(facts.Exporter, on, output, failure, "processes")
	return p
}

// holders returns the holders and the missing parts for people.
func holders(r doctor.Report) string {
	_, out, _ := strings.Cut(text(r), "\nheld by, the most useful first:\n")
	return out
}

// TestWhoHoldsTheGPUs has the answer of the exporter from its own test.
func TestWhoHoldsTheGPUs(t *testing.T) {
	answer, err := os.ReadFile("../../../agents/dcgm-exporter/internal/app/testdata/processes.golden")
	assert.NilError(t, err)
	c := healthy("busy", "idle", "part", "silent", "hidden", "free")
	c.user("train", "", map[string]int64{gpu: 4})
	c.user("etl", "busy", map[string]int64{gpu: 8})
	c.exporter("busy", string(answer), "")
	c.user("notebook", "idle", map[string]int64{gpu: 6})
	c.exporter("idle", `{"processes":[]}`, "")
	c.user("new", "part", map[string]int64{gpu: 3}).Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Minute)},
	}
	c.user("old", "part", map[string]int64{gpu: 2}).CreationTimestamp = ago(24 * time.Hour)
	c.user("ended", "part", map[string]int64{gpu: 3}).Status.Phase = corev1.PodSucceeded
	c.exporter("part", `{"processes":[{"gpu":1,"pid":5,"namespace":"team","pod":"old"}]}`, "list the processes on GPU 2: GPU is lost")
	c.user("other", "silent", map[string]int64{gpu: 8})
	c.user("veiled", "hidden", map[string]int64{gpu: 8})
	c.exporter("hidden", `{"processes":[]}`, "").Spec.HostPID = false
	c.node("free").Spec.Unschedulable = true
	c.user("elsewhere", "free", map[string]int64{gpu: 8})
	want := `  idle: team/notebook has 6 nvidia.com/gpu since 120m; no process uses them
  part: team/old has 2 nvidia.com/gpu since 24h; a process (pid 5) uses GPU 1
  busy: team/etl has 8 nvidia.com/gpu since 120m; python3 (pid 4711) uses GPU 0, 20.0 GiB
  hidden: team/veiled has 8 nvidia.com/gpu since 120m
  silent: team/other has 8 nvidia.com/gpu since 120m
  part: team/new has 3 nvidia.com/gpu since 60s
  busy: Xorg (pid 812) of gdm.service uses GPU 0, 5 MiB; a process (pid 99) uses GPU instance 2 of GPU 0; a process uses GPU instance 2 of GPU 0

not seen:
  processes on the GPUs of part: list the processes on GPU 2: GPU is lost
  processes on the GPUs of hidden: the agent dcgm-exporter does not share the PID namespace of the host: set hostPID of its chart
  processes on the GPUs of silent: the agent dcgm-exporter has not answered there
`
	assert.Equal(t, holders(doctor.Diagnose(c.Facts, ofTrain())), want)
	assert.DeepEqual(t, doctor.Holding(c.Facts, ofTrain()), []string{"part", "busy", "hidden", "idle", "silent"})
}

// TestManyHolders has more pods than fit on a page, on more nodes than are asked.
func TestManyHolders(t *testing.T) {
	var names []string
	for i := range 14 {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	c := healthy(names...)
	c.user("train", "", map[string]int64{gpu: 8})
	for i, name := range names {
		c.user("job-"+name, name, map[string]int64{gpu: 1}).CreationTimestamp = ago(time.Duration(i) * time.Hour)
		c.exporter(name, `{"processes":[]}`, "")
	}
	r := doctor.Diagnose(c.Facts, ofTrain())
	out := holders(r)
	slices.Reverse(names)
	assert.DeepEqual(t, doctor.Holding(c.Facts, ofTrain()), names[:10])
	if len(r.Holders) != 14 || !strings.HasPrefix(out, "  n13: team/job-n13 has 1 nvidia.com/gpu since 13h; no process") || strings.Count(out, "team/job") != 10 ||
		!strings.Contains(out, "and 4 more") || !strings.Contains(out, "processes on the GPUs of n03, n02, n01 and 1 more: the agents of at most 10 nodes are asked") {
		t.Error(out)
	}
}

// TestHostileProcesses has an answer of a container that is not the exporter.
func TestHostileProcesses(t *testing.T) {
	c := healthy(node)
	c.user("train", "", map[string]int64{gpu: 8})
	c.user("etl", node, map[string]int64{gpu: 8})
	process := map[string]any{"command": hostile, "namespace": "team", "pod": "etl", "unit": hostile}
	list := slices.Repeat([]any{process, map[string]any{"command": "x", "unit": hostile}}, 5000)
	c.exporter(node, encoded(map[string]any{"processes": list}), "")
	r := doctor.Diagnose(c.Facts, ofTrain())
	if out := text(r); strings.Contains(out, "\n   fix:      curl") || strings.Contains(out, "\x1b") || len(out) > 10_000 {
		t.Error(out)
	}
	if n := len(r.Holders[0].Processes); n > 1000 {
		t.Errorf("%d processes", n)
	}
}
