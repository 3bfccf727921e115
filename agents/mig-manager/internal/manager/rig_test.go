package manager_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/procowner"
)

// node is a node with GPUs, whose layouts are the name of a config.
type node struct {
	*testing.T
	admin *kube.Client
	// client returns a client of a program.
	client func(string) *kube.Client
	cfg    manager.Config

	mu sync.Mutex
	// is is the config that is in effect, and applied how often one was applied.
	is      string
	applied int
	// fails is what Apply returns.
	fails   error
	users   []mig.Holder
	stopped []string
	// log has what was done, in order.
	log    []string
	events []string
}

// newNode returns a node with a namespace of its own.
func newNode(t *testing.T, name string, client func(string) *kube.Client) *node {
	n := &node{T: t, admin: client("kubectl")}
	n.create("v1", "nodes", "", map[string]any{"kind": "Node", "metadata": map[string]any{"name": name}})
	n = nodeOf(t, client)
	n.create("v1", "namespaces", "", map[string]any{"kind": "Namespace", "metadata": map[string]any{"name": "of-" + name}})
	return n
}

// nodeOn returns a node of a server that counts requests, and fails them.
func nodeOn(t *testing.T, api *apitest.API) *node {
	return nodeOf(t, func(agent string) *kube.Client { return apitest.Client(t, api.Config, api.Name, agent) })
}

// nodeOf returns a node whose Node exists.
func nodeOf(t *testing.T, client func(string) *kube.Client) *node {
	n := &node{T: t, admin: client("kubectl"), client: client, is: "all-disabled"}
	dir := t.TempDir()
	assert.NilError(t, os.Mkdir(filepath.Join(dir, "run"), 0o755))
	n.cfg = manager.Config{
		Client: client(manager.Name), Report: n.report, GPUs: n,
		Select: func(name string, _ []mig.GPU) (map[gpu.UUID]mig.Desired, error) {
			if !strings.HasPrefix(name, "all-") {
				return nil, errors.New("config " + name + " does not exist: must be all-disabled or all-balanced")
			}
			return map[gpu.UUID]mig.Desired{gpu.UUID(name): {Enabled: true}}, nil
		},
		Stays:         func(context.Context, procowner.Pod) bool { return false },
		Reboot:        func(context.Context) error { n.did("reboot"); return nil },
		Options:       manager.Options{Policy: manager.WaitForPods, RebootPause: time.Hour, Poll: 20 * time.Millisecond},
		Contract:      contract.Dir{Root: filepath.Join(dir, "run"), BootIDFile: filepath.Join(dir, "boot_id")},
		DriverVersion: func() string { return "580.95.05" },
		Loaded:        func() string { return "580.95.05/7" },
		RebootFile:    filepath.Join(dir, "state", "reboot.json"),
		Retry:         pace.Backoff{First: 20 * time.Millisecond, Most: 40 * time.Millisecond},
		Log:           slog.New(slog.DiscardHandler),
	}
	n.boot("1")
	return n
}

func (n *node) did(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = append(n.log, what)
}

func (n *node) report(e kube.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, e.Reason+": "+e.Message)
}

// seen returns what was reported or done.
func (n *node) seen(of *[]string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(*of)
}

// sent waits for so many Events, which follow what the Node shows, and returns all.
func (n *node) sent(number int) []string {
	n.Helper()
	n.until("reported", func(shown) bool { return len(n.seen(&n.events)) >= number })
	return n.seen(&n.events)
}

// Observe, Plan, Apply and Recover are those of manager.GPUs.
func (n *node) Observe(context.Context) (*apply.Observation, error) { return &apply.Observation{}, nil }

func (n *node) Plan(_ context.Context, req apply.Request) (apply.Plan, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range req.Desired {
		if string(name) != n.is {
			return apply.Plan{GPUs: []apply.Change{{Mode: true, Reset: true, Holders: slices.Clone(n.users)}}}, nil
		}
	}
	return apply.Plan{}, nil
}

func (n *node) Apply(_ context.Context, req apply.Request) (apply.Result, error) {
	n.mu.Lock()
	held := slices.DeleteFunc(slices.Clone(n.users), func(h mig.Holder) bool { return h.PID != 0 })
	n.mu.Unlock()
	if len(held) > 0 {
		return apply.Result{}, &apply.InUse{Holders: held}
	}
	n.did("apply")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.applied++
	if n.fails != nil {
		return n.result(), n.fails
	}
	for name := range req.Desired {
		n.is = string(name)
	}
	return apply.Result{}, nil
}

func (n *node) Recover(context.Context, apply.Request) (apply.Result, error) {
	n.did("recover")
	return apply.Result{}, nil
}

// needsReboot is the error of a GPU whose mode takes effect after a reboot of the host.
func needsReboot() error { return &apply.RebootError{Reason: "no reset"} }

// result is the one of an attempt that failed.
func (n *node) result() apply.Result {
	if _, ok := errors.AsType[*apply.RebootError](n.fails); !ok {
		return apply.Result{}
	}
	return apply.Result{GPUs: []apply.Outcomes{{Outcome: apply.NeedsReboot, Err: n.fails}}}
}

// holds is a container of a pod that holds a MIG device.
func holds(namespace, pod string) mig.Holder {
	return mig.Holder{Process: procowner.Process{Pod: procowner.Pod{Namespace: namespace, Name: pod}}, Device: "1g.10gb"}
}

// ofUnit is a process of a unit of the host that has a GPU open.
func ofUnit() mig.Holder {
	return mig.Holder{Process: procowner.Process{PID: 42, Owner: procowner.Owner{Unit: "nvsm.service"}}}
}

// Stop and Start are those of manager.Units.
func (n *node) Stop(context.Context) error {
	n.did("stop")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = []string{"nvsm.service"}
	return nil
}

func (n *node) Start(context.Context) error {
	if len(n.seen(&n.stopped)) == 0 {
		return nil
	}
	n.did("start")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = nil
	return nil
}

// set changes the node while the manager runs.
func (n *node) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (n *node) create(api, resource, namespace string, object map[string]any) {
	n.Helper()
	object["apiVersion"] = api
	assert.NilError(n, n.admin.Create(n.Context(), kube.Object{API: api, Resource: resource, Namespace: namespace}, object))
}

// pod creates a pod on the node that holds a MIG device.
func (n *node) pod(namespace, name string) {
	n.Helper()
	n.podOn(n.admin.Node().Name, namespace, name)
}

// podOn creates a pod on a node. This node's kubelet lists one of that name.
func (n *node) podOn(node, namespace, name string) {
	n.Helper()
	n.create("v1", "pods", namespace, map[string]any{
		"kind": "Pod", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"nodeName": node, "terminationGracePeriodSeconds": 0,
			"containers": []any{map[string]any{"name": "main", "image": "image"}},
		},
	})
	n.set(func() { n.users = []mig.Holder{holds(namespace, name)} })
}

// ask sets the label.
func (n *node) ask(config string) {
	n.Helper()
	assert.NilError(n, n.admin.Apply(n.Context(), n.admin.Node(), map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": n.admin.Node().Name, "labels": map[string]string{manager.ConfigLabel: config}},
	}, nil))
}

// boot makes the host boot.
func (n *node) boot(id string) {
	n.Helper()
	assert.NilError(n, os.WriteFile(n.cfg.Contract.BootIDFile, []byte(id+"\n"), 0o600))
}

// start runs a manager, and returns a function that ends it.
func (n *node) start() (stop func()) { return n.run(manager.New(n.cfg)) }

// run is start for a manager that the test asks.
func (n *node) run(m *manager.Manager) (stop func()) { return agenttest.Run(n, m.Run) }

// shown is what people see of the Node.
type shown struct {
	Metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
}

func (s shown) state() manager.State { return manager.State(s.Metadata.Labels[manager.StateLabel]) }
func (s shown) cause() string        { return s.Metadata.Annotations[manager.CauseAnnotation] }

// until waits until the Node is as a function says.
func (n *node) until(what string, is func(shown) bool) shown {
	n.Helper()
	for end := time.Now().Add(5 * time.Minute); ; {
		var s shown
		assert.NilError(n, n.admin.Get(n.Context(), n.admin.Node(), &s))
		if is(s) {
			return s
		}
		if time.Now().After(end) {
			n.Fatalf("the node does not become %s: %+v; done: %v", what, s, n.seen(&n.log))
		}
		pace.Pause(n.Context(), 10*time.Millisecond)
	}
}

func (n *node) succeeds() shown {
	n.Helper()
	return n.until("success", func(s shown) bool { return s.state() == manager.Success && s.cause() == "" && !s.Spec.Unschedulable })
}
