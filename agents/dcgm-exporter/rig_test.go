package main

import (
	"strconv"
	"strings"
	"testing"
	"time"

	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/podresources/podresourcestest"
)

// The tests of this package run the exporter as a process on the simulated node, and scrape it.

func TestMain(m *testing.M) { agenttest.Main(m, agenttest.Pod(main)) }

// process is an exporter that is scraped.
type process struct {
	*agenttest.Process
	t   *testing.T
	run string
}

// interval is the time between two readings of a GPU.
const interval = 250 * time.Millisecond

// start starts an exporter in the node, which reads its GPUs often.
func start(t *testing.T, n *simtest.Node, args ...string) *process {
	t.Helper()
	run := t.TempDir()
	cmd := agenttest.Command(t, n, append([]string{
		"--run-root", run, "--listen", "127.0.0.1:0", "--collect-interval=" + strconv.Itoa(int(interval.Milliseconds())), "--node-name=node1",
	}, args...)...)
	return &process{Process: agenttest.Start(t, cmd), t: t, run: run}
}

// series returns the metrics with a name whose labels contain all parts: their values by their
// labels.
func (p *process) series(name string, parts ...string) map[string]string {
	p.t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(p.Get("/metrics")) {
		labels, ok := strings.CutPrefix(line, name+"{")
		if !ok {
			continue
		}
		end := strings.LastIndex(labels, "} ")
		has := true
		for _, part := range parts {
			has = has && strings.Contains(labels[:end], part)
		}
		if has {
			out[labels[:end]] = strings.TrimSpace(labels[end+2:])
		}
	}
	return out
}

// has waits until exactly one metric with the name and the parts of labels has the value.
func (p *process) has(value, name string, parts ...string) {
	p.t.Helper()
	var got map[string]string
	agenttest.Poll(p.t, name+" "+strings.Join(parts, " ")+" of "+value, func() bool {
		got = p.series(name, parts...)
		for _, v := range got {
			return len(got) == 1 && v == value
		}
		return false
	})
}

// lacks waits until there is no metric with the name and the parts of labels.
func (p *process) lacks(name string, parts ...string) {
	p.t.Helper()
	agenttest.Poll(p.t, "no "+name, func() bool { return len(p.series(name, parts...)) == 0 })
}

// runs sets the pods of the node: each has one container, main, with one device.
func runs(k *podresourcestest.Kubelet, devices map[string]string) {
	var all []*kubelet.PodResources
	for name, id := range devices {
		all = append(all, podresourcestest.Pod("ml", name, podresourcestest.Container("main", "nvidia.com/gpu", id)))
	}
	k.Set(all...)
}
