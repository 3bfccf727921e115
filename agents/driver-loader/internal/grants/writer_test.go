package grants_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/grants"
	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
	"outrigger.dev/pkg/pace"
)

const (
	namespace = "gpus"
	// parallel and unavailable are limits of both pools.
	parallel, unavailable = 5, 10
	// size is the number of nodes, and away the number of them that are not ready for a while: more than unavailable.
	// Each change of a node makes the writer and the test read all nodes, so the time grows with the square of size.
	size, away = 24, 12
)

// roll is a roll-out on a real API server: the test plays the agents and kubelets of its nodes.
type roll struct {
	*testing.T
	operator *kube.Client
	// nodes has a client for each node, because one sends few requests a second.
	nodes map[string]*kube.Client
	start func() (stop func())
	// ever are the nodes that have had a grant for a driver.
	ever map[string]map[string]bool
}

// newRoll returns a roll-out on nodes in two pools, with a writer that the chart's policies restrict.
func newRoll(t *testing.T) *roll {
	t.Helper()
	rc := apitest.Start(t)
	restricted := apitest.Restrict(t, rc, "../../../../charts/testdata/driver-loader/defaults.golden", "gpu-operator-resources/outrigger-driver-loader-upgrades")
	r := &roll{T: t, operator: apitest.Client(t, rc, "any", "kubectl"), nodes: map[string]*kube.Client{}, ever: map[string]map[string]bool{}}
	r.create("v1", "namespaces", map[string]any{"kind": "Namespace", "metadata": map[string]any{"name": namespace}})
	for _, name := range []string{"a", "b"} {
		r.daemonSet(name, fmt.Sprintf(`{"maxParallelUpgrades": %d, "maxUnavailable": %d, "maxFailures": 1}`, parallel, unavailable))
	}
	for i := range size {
		name := fmt.Sprintf("node-%02d", i)
		r.nodes[name] = apitest.Client(t, rc, name, "kubectl")
		r.create("v1", "nodes", map[string]any{
			"kind": "Node", "metadata": map[string]any{"name": name, "labels": map[string]any{"nvidia.com/gpu.present": "true"}, "annotations": map[string]any{"of": "others"}},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
		})
	}
	writer := restricted(t, "node-00")
	r.start = func() func() {
		w := grants.New(grants.Config{
			Client: apitest.Client(t, writer, "node-00", "driver-loader-upgrades"), Namespace: namespace, Log: slog.New(slog.DiscardHandler),
			Retry: pace.Backoff{First: 10 * time.Millisecond, Most: 100 * time.Millisecond},
		})
		return agenttest.Run(t, w.Run)
	}
	return r
}

func (r *roll) create(api, resource string, object map[string]any) {
	r.Helper()
	object["apiVersion"] = api
	of := kube.Object{API: api, Resource: resource}
	if resource == "daemonsets" {
		of.Namespace = namespace
	}
	assert.NilError(r, r.operator.Create(r.Context(), of, object))
}

func (r *roll) daemonSet(name, policy string) {
	r.Helper()
	app := map[string]any{"app": name}
	r.create("apps/v1", "daemonsets", map[string]any{
		"kind": "DaemonSet", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": app}, "template": map[string]any{
			"metadata": map[string]any{"labels": app}, "spec": map[string]any{"nodeSelector": map[string]any{"no": "node"}, "containers": []any{map[string]any{
				"name": "main", "image": "image", "env": []any{map[string]any{"name": "UPGRADE_POLICY", "value": policy}},
			}}},
		}},
	})
}

// patch changes a Node.
func (r *roll) patch(name, subresource string, ops ...kube.Operation) {
	r.Helper()
	of := kube.Object{API: "v1", Resource: "nodes", Name: name, Subresource: subresource}
	assert.NilError(r, r.nodes[name].Patch(r.Context(), of, ops, nil))
}

func op(path string, value any) kube.Operation {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return kube.Operation{Op: "add", Path: path, Value: text}
}

// report makes a node report a state of its upgrade, as its agent does.
func (r *roll) report(name, pool string, state upgrade.State, driver, failed string) {
	r.Helper()
	ops := []kube.Operation{
		op("/metadata/labels/"+strings.ReplaceAll(upgrade.StateLabel, "/", "~1"), state), op(kube.AnnotationPath(upgrade.DriverAnnotation), driver),
		op(kube.AnnotationPath(upgrade.DaemonSetAnnotation), namespace+"/"+pool), op(kube.AnnotationPath(upgrade.FailedAnnotation), failed),
	}
	r.patch(name, "", ops...)
}

func (r *roll) ready(name, status string) {
	r.Helper()
	r.patch(name, "status", op("/status/conditions", []any{map[string]any{"type": "Ready", "status": status}}))
}

// look reads all Nodes, and checks that the grants in force do not exceed the limit.
func (r *roll) look() map[string]grants.Node {
	r.Helper()
	all, err := kube.List[grants.Node](r.Context(), r.operator, kube.Query{Object: kube.Object{API: "v1", Resource: "nodes"}})
	assert.NilError(r, err)
	nodes, granted := map[string]grants.Node{}, 0
	for _, n := range all {
		nodes[n.Name] = n
		if n.Granted != "" {
			granted++
			if r.ever[n.Granted] == nil {
				r.ever[n.Granted] = map[string]bool{}
			}
			r.ever[n.Granted][n.Name] = true
		}
	}
	if granted > parallel {
		r.Fatalf("%d grants are in force, want %d at most", granted, parallel)
	}
	return nodes
}

// until looks until something holds.
func (r *roll) until(what string, holds func(map[string]grants.Node) bool) map[string]grants.Node {
	r.Helper()
	ctx := agenttest.Deadline(r)
	for {
		nodes := r.look()
		if holds(nodes) {
			return nodes
		}
		if !pace.Pause(ctx, 50*time.Millisecond) {
			r.Fatalf("timed out before %s: %+v", what, nodes)
		}
	}
}

// work plays the agents for one step: those that have a grant begin, and those that have begun are done.
func (r *roll) work(nodes map[string]grants.Node) {
	r.Helper()
	for name, n := range nodes {
		pool := n.DaemonSet[len(namespace)+1:]
		switch {
		case n.State == upgrade.Required && n.Granted == n.Driver:
			r.report(name, pool, upgrade.Swapping, n.Driver, n.Failed)
		case n.State == upgrade.Swapping && !n.NotReady:
			r.report(name, pool, upgrade.Done, n.Driver, "")
		}
	}
}

func (r *roll) wants(driver string) {
	r.Helper()
	i := 0
	for name := range r.nodes {
		i++
		r.report(name, []string{"a", "b"}[i%2], upgrade.Required, driver, "")
	}
}

func count(nodes map[string]grants.Node, is func(grants.Node) bool) (n int) {
	for _, node := range nodes {
		if is(node) {
			n++
		}
	}
	return n
}

func granted(n grants.Node) bool { return n.Granted != "" }

// TestARollOut goes on through outages, restarts of the writer and moves between pools.
func TestARollOut(t *testing.T) {
	r := newRoll(t)
	r.wants("2")
	stop, other := r.start(), r.start() // two, as while a Deployment replaces its pod
	nodes := r.until("some nodes have a grant", func(nodes map[string]grants.Node) bool { return count(nodes, granted) == parallel })
	other()
	// A node dies in its upgrade, and others that have not begun are not ready.
	dead := ""
	unready := map[string]bool{}
	for name, n := range nodes {
		if granted(n) && dead == "" {
			dead = name
			r.report(name, "a", upgrade.Swapping, "2", "")
			r.ready(name, "Unknown")
		} else if !granted(n) && len(unready) < away {
			unready[name] = true
			r.ready(name, "Unknown")
		}
	}
	before := maps.Clone(r.ever["2"])
	r.until("the others that began have ended", func(nodes map[string]grants.Node) bool {
		r.work(nodes)
		return count(nodes, granted) == 1
	})
	if len(r.ever["2"]) != len(before) {
		t.Errorf("%d nodes have had a grant, and %d before more than %d nodes were unavailable", len(r.ever["2"]), len(before), unavailable)
	}
	for name := range unready {
		r.ready(name, "True")
	}
	// The rest is upgraded beside the dead node, with a writer that is restarted again and again.
	moved := false
	nodes = r.until("all other nodes are done", func(nodes map[string]grants.Node) bool {
		r.work(nodes)
		stop()
		stop = r.start()
		for name, n := range nodes {
			if n.State == upgrade.Required && !granted(n) && !moved {
				moved = true
				r.report(name, "b", upgrade.Required, "2", "")
			}
		}
		return count(nodes, func(n grants.Node) bool { return n.State == upgrade.Done && !granted(n) }) == size-1
	})
	if n := nodes[dead]; n.Granted != "2" || n.State != upgrade.Swapping {
		t.Errorf("the node that died is %+v, and should keep its place", n)
	}
	r.ready(dead, "True")

	// A driver that fails on one node stops the fleet.
	r.wants("3")
	nodes = r.until("the limit is reached", func(nodes map[string]grants.Node) bool {
		return count(nodes, func(n grants.Node) bool { return n.Granted == "3" }) == parallel
	})
	failed := false
	for name, n := range nodes {
		switch {
		case !granted(n):
		case !failed:
			failed = true
			r.report(name, "a", upgrade.Failed, "3", "3")
		default:
			r.report(name, "a", upgrade.Done, "3", "")
		}
	}
	r.until("all grants have ended", func(nodes map[string]grants.Node) bool { return count(nodes, granted) == 0 })
	r.until("the board says why the others wait", func(map[string]grants.Node) bool {
		var board struct {
			Data map[string]string `json:"data"`
		}
		assert.NilError(t, r.operator.Get(t.Context(), kube.Object{API: "v1", Resource: "configmaps", Namespace: namespace, Name: upgrade.BoardName}, &board))
		var w upgrade.Waiting
		_ = json.Unmarshal([]byte(board.Data[upgrade.WaitingPrefix+"a"]), &w)
		return len(w.Halted["3"]) == 1
	})
	if len(r.ever["3"]) != parallel {
		t.Errorf("%d nodes have had a grant for a driver that failed, want %d", len(r.ever["3"]), parallel)
	}

	// A driver that was mended goes on.
	r.wants("4")
	r.until("some nodes have the driver that was mended", func(nodes map[string]grants.Node) bool {
		r.work(nodes)
		return count(nodes, func(n grants.Node) bool { return n.State == upgrade.Done && n.Driver == "4" }) > parallel
	})
	stop()
}
