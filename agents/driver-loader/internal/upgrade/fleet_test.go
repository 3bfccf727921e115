package upgrade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
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

func TestMain(m *testing.M) {
	if spec := os.Getenv(asAgent); spec != "" {
		runAgent(spec)
	}
	os.Exit(m.Run())
}

// policies is the file with the objects that the chart renders, and account the one that its
// admission policies are for.
const (
	policies = "../../../../charts/testdata/driver-loader/defaults.golden"
	account  = "gpu-operator-resources/outrigger-driver-loader"
)

// server is a real API server, with the admission policies of the chart. Its cluster has no kubelet.
type server struct {
	// agent is how the agent of a node connects, writer the program that grants upgrades, and
	// operator a client of somebody else.
	agent    apitest.Restricted
	writer   func(t *testing.T) *kube.Client
	operator func(t *testing.T, node string) *kube.Client
}

func newServer(t *testing.T) *server {
	rc := apitest.Start(t)
	var mu sync.Mutex
	operators := map[string]*kube.Client{}
	return &server{
		agent:  apitest.Restrict(t, rc, policies, account),
		writer: func(t *testing.T) *kube.Client { return apitest.Client(t, rc, "any", "driver-loader-upgrades") },
		operator: func(_ *testing.T, node string) *kube.Client {
			mu.Lock()
			defer mu.Unlock()
			if operators[node] == nil {
				operators[node] = apitest.Client(t, rc, node, "kubectl")
			}
			return operators[node]
		},
	}
}

// fleet is the nodes of one test, with a namespace of its own.
type fleet struct {
	*testing.T
	*server
	namespace string
	policy    upgrade.Policy
	// granting starts the writer of grants once.
	granting sync.Once

	mu sync.Mutex
	// swapping are the nodes whose driver is being changed, and most how many there were at once.
	swapping map[string]bool
	most     int
}

func (s *server) fleet(t *testing.T, namespace string) *fleet {
	f := &fleet{T: t, server: s, namespace: namespace, policy: upgrade.Default(), swapping: map[string]bool{}}
	f.create("v1", "namespaces", map[string]any{"kind": "Namespace", "metadata": map[string]any{"name": namespace}})
	return f
}

// grants creates the DaemonSet with the policy of the nodes, and grants upgrades until the test ends.
func (f *fleet) grants() {
	f.Helper()
	policy, err := json.Marshal(f.policy)
	assert.NilError(f, err)
	f.create("apps/v1", "daemonsets", map[string]any{
		"kind": "DaemonSet", "metadata": map[string]any{"name": "driver-loader"},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "x"}},
			"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "x"}}, "spec": map[string]any{
				"nodeSelector": map[string]any{"no": "node"}, "containers": []any{map[string]any{
					"name": "main", "image": "image", "env": []any{map[string]any{"name": "UPGRADE_POLICY", "value": string(policy)}},
				}},
			}},
		},
	})
	w := grants.New(grants.Config{
		Client: f.writer(f.T), Namespace: f.namespace, Log: slog.New(slog.DiscardHandler),
		Retry: pace.Backoff{First: 10 * time.Millisecond, Most: 100 * time.Millisecond},
	})
	agenttest.Run(f, w.Run)
}

// create creates an object of the namespace.
func (f *fleet) create(api, resource string, object map[string]any) {
	f.Helper()
	object["apiVersion"] = api
	of := kube.Object{API: api, Resource: resource}
	if resource != "nodes" && resource != "namespaces" {
		of.Namespace = f.namespace
	}
	assert.NilError(f, f.operator(f.T, "any").Create(f.Context(), of, object))
}

// pod creates a pod without a controller, which may hold a GPU.
func (f *fleet) pod(node, name string, gpu bool) {
	f.Helper()
	container := map[string]any{"name": "main", "image": "image"}
	if gpu {
		container["resources"] = map[string]any{"limits": map[string]any{"nvidia.com/gpu": "1"}}
	}
	f.create("v1", "pods", map[string]any{
		"kind": "Pod", "metadata": map[string]any{"name": name, "labels": map[string]any{"name": name}},
		"spec": map[string]any{"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": []any{container}},
	})
}

// heldPod creates a pod that a disruption budget keeps. A budget holds only a pod that is ready.
func (f *fleet) heldPod(node, name string) {
	f.Helper()
	f.pod(node, name, true)
	f.create("policy/v1", "poddisruptionbudgets", map[string]any{"kind": "PodDisruptionBudget", "metadata": map[string]any{"name": "keep"}, "spec": map[string]any{
		"minAvailable": 1, "selector": map[string]any{"matchLabels": map[string]any{"name": name}},
	}})
	ready := []kube.Operation{{Op: "add", Path: "/status", Value: []byte(`{"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}`)}}
	pod := kube.Object{API: "v1", Resource: "pods", Namespace: f.namespace, Name: name, Subresource: "status"}
	assert.NilError(f, f.operator(f.T, "any").Patch(f.Context(), pod, ready, nil))
}

// pods returns the names of the pods.
func (f *fleet) pods() (names []string) {
	f.Helper()
	type meta struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	all, err := kube.List[meta](f.Context(), f.operator(f.T, "any"), kube.Query{Object: kube.Object{API: "v1", Resource: "pods", Namespace: f.namespace}, Metadata: true})
	assert.NilError(f, err)
	for _, p := range all {
		names = append(names, p.Metadata.Name)
	}
	return names
}

// shown is what tools read of a Node.
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

// deployClient is a label that DaemonSets of other programs select. Feature discovery sets it.
const deployClient = "nvidia.com/gpu.deploy.client"

func (s shown) state() string { return s.Metadata.Labels[upgrade.StateLabel] }
func (s shown) cause() string { return s.Metadata.Annotations[upgrade.CauseAnnotation] }

// machine is a node with a driver.
type machine struct {
	*fleet
	name    string
	journal string

	// loaded is what survives a kill of the agent.
	loaded string
	// swap, validate and rollBack fail with these errors.
	swap, validate, rollBack error
	// looked gets a signal of each look at the driver, if it is not nil.
	looked chan struct{}
	// offered is Config.Offered, if it is not nil.
	offered func(context.Context) error
	// in is called in each method of Driver that changes the driver.
	in func(method string)
	// desired is the driver of the chart.
	desired string
}

// node creates a Node whose driver is 1 and should be 2.
func (f *fleet) node(name string, cordoned bool) *machine {
	f.Helper()
	name = f.namespace + "-" + name
	f.create("v1", "nodes", map[string]any{
		"kind": "Node", "metadata": map[string]any{"name": name, "labels": map[string]any{"nvidia.com/gpu.present": "true", deployClient: "true"}},
		"spec": map[string]any{"unschedulable": cordoned}, "status": map[string]any{
			"capacity": map[string]any{"nvidia.com/gpu": "8"}, "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		},
	})
	m := &machine{fleet: f, name: name, journal: filepath.Join(f.TempDir(), "upgrade.json"), loaded: "1", desired: "2", in: func(string) {}}
	f.Cleanup(m.forget)
	return m
}

// forget makes the Node one that counts for no other test.
func (m *machine) forget() {
	c := m.operator(m.T, m.name)
	assert.NilError(m, c.Patch(context.WithoutCancel(m.Context()), c.Node(), []kube.Operation{
		{Op: "add", Path: "/spec/unschedulable", Value: []byte("false")},
		{Op: "add", Path: "/metadata/annotations", Value: []byte("{}")},
		{Op: "add", Path: "/metadata/labels", Value: []byte("{}")},
	}, nil))
}

func (m *machine) Loaded(context.Context) (string, error) {
	if m.looked != nil {
		m.looked <- struct{}{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.loaded, nil
}

func (m *machine) set(driver string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loaded = driver
}

func (m *machine) Swap(ctx context.Context, target string) error {
	m.mu.Lock()
	m.swapping[m.name] = true
	m.most = max(m.most, len(m.swapping))
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.swapping, m.name)
	}()
	m.set("")
	m.in("swap")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if m.swap != nil {
		return m.swap
	}
	m.set(target)
	return nil
}

func (m *machine) Validate(ctx context.Context) error {
	m.in("validate")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return m.validate
}

func (m *machine) RollBack(ctx context.Context, previous string) error {
	m.in("roll back")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if m.rollBack == nil {
		m.set(previous)
	}
	return m.rollBack
}

// show reads the Node.
func (m *machine) show() (s shown) {
	m.Helper()
	c := m.operator(m.T, m.name)
	assert.NilError(m, c.Get(m.Context(), c.Node(), &s))
	return s
}

// config returns what all agents have, with short delays.
func config(c *kube.Client, log *slog.Logger, namespace string) upgrade.Config {
	return upgrade.Config{
		Client: c, Events: kube.NewEvents(c), Log: log,
		DaemonSet: namespace + "/driver-loader",
		Board:     kube.Object{API: "v1", Resource: "configmaps", Namespace: namespace, Name: upgrade.BoardName},
		Retry:     pace.Backoff{First: 10 * time.Millisecond, Most: 100 * time.Millisecond}, Slice: time.Second, Evict: 100 * time.Millisecond,
	}
}

// start runs an agent of the node until stop is called.
func (m *machine) start() (stop func()) {
	m.granting.Do(m.grants)
	rc := m.agent(m.T, m.name)
	c := apitest.Client(m.T, rc, m.name, "driver-loader")
	cfg := config(c, slog.New(slog.DiscardHandler), m.namespace)
	cfg.Driver, cfg.Journal, cfg.Offered = m, m.journal, m.offered
	cfg.Desired = func(upgrade.State) (upgrade.Desired, error) {
		return upgrade.Desired{Driver: m.desired, Policy: m.policy}, nil
	}
	u := upgrade.New(cfg)
	ctx, cancel := context.WithCancel(m.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = u.Run(ctx) })
	running.Go(func() { _ = cfg.Events.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// until waits until the Node shows something.
func (m *machine) until(what string, ok func(shown) bool) shown {
	m.Helper()
	ctx := agenttest.Deadline(m)
	for {
		s := m.show()
		if ok(s) {
			return s
		}
		if !pace.Pause(ctx, 20*time.Millisecond) {
			m.Fatalf("timed out before %s: %+v", what, s)
		}
	}
}

// reaches waits until the Node has a state and is settled.
func (m *machine) reaches(state upgrade.State) shown {
	m.Helper()
	return m.until(fmt.Sprintf("%s has the state %s", m.name, state), func(s shown) bool {
		j, err := upgrade.ReadJournal(m.journal)
		return err == nil && s.state() == string(state) && j.State == state && (s.cause() != "" || state != upgrade.Required)
	})
}
