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

	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
	"outrigger.dev/pkg/pace"
)

// TestManager runs managers of nodes against a real API server.
func TestManager(t *testing.T) {
	rc := apitest.Start(t)
	for name, test := range map[string]func(*node){
		"label":   (*node).testsALabelIsFollowed,
		"unknown": (*node).testsAnUnknownConfigFails,
		"wait":    (*node).testsAPodHoldsItBack,
		"evict":   (*node).testsAPodIsEvicted,
		"retry":   (*node).testsAFailureIsRetried,
		"crash":   (*node).testsACordonOfAKilledAgentEnds,
		"units":   (*node).testsUnitsOfTheHostRunAgain,
		"reboot":  (*node).testsTheHostIsRebootedOnce,
		"default": (*node).testsTheDefaultNeedsNoLabel,
	} {
		t.Run(name, func(t *testing.T) {
			test(newNode(t, name, func(agent string) *kube.Client { return apitest.Client(t, rc, name, agent) }))
		})
	}
}

// node is a node with GPUs, whose layouts are the name of a config.
type node struct {
	*testing.T
	admin *kube.Client
	cfg   manager.Config

	mu sync.Mutex
	// is is the config that is in effect, and applied how often one was applied.
	is      string
	applied int
	// fails is what Apply returns.
	fails   error
	users   []manager.User
	stopped []string
	// log has what was done, in order.
	log    []string
	events []string
}

func newNode(t *testing.T, name string, client func(string) *kube.Client) *node {
	n := &node{T: t, admin: client("kubectl"), is: "all-disabled"}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.create("v1", "nodes", "", map[string]any{"kind": "Node", "metadata": map[string]any{"name": name}})
	n.create("v1", "namespaces", "", map[string]any{"kind": "Namespace", "metadata": map[string]any{"name": "of-" + name}})
	n.cfg = manager.Config{
		Client: client(manager.Name), Report: n.report, GPUs: n,
		Recover: func(context.Context, manager.Wish) error { n.did("recover"); return nil },
		Select: func(name string, _ []mig.GPU) (manager.Wish, error) {
			if !strings.HasPrefix(name, "all-") {
				return nil, errors.New("config " + name + " does not exist: must be all-disabled or all-balanced")
			}
			return manager.Wish{gpu.UUID(name): {Enabled: true}}, nil
		},
		Users: func(context.Context, manager.Change) ([]manager.User, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.users, nil
		},
		Reboot:        func(context.Context) error { n.did("reboot"); return nil },
		Options:       manager.Options{Policy: manager.WaitForPods, Poll: 20 * time.Millisecond},
		Contract:      contract.Dir{Root: filepath.Join(dir, "run")},
		DriverVersion: func() string { return "580.95.05" },
		RebootFile:    filepath.Join(dir, "state", "reboot.json"),
		Retry:         pace.Backoff{First: 20 * time.Millisecond, Most: 40 * time.Millisecond},
		Log:           slog.New(slog.DiscardHandler),
	}
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

// Read, Plan and Apply are those of manager.GPUs.
func (n *node) Read(context.Context) ([]mig.GPU, error) { return []mig.GPU{{}}, nil }

func (n *node) Plan(_ context.Context, w manager.Wish) (manager.Change, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range w {
		if string(name) != n.is {
			return manager.Change{GPUs: []manager.GPUChange{{Mode: true, Reset: true}}}, nil
		}
	}
	return manager.Change{}, nil
}

func (n *node) Apply(_ context.Context, w manager.Wish) error {
	n.did("apply")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.applied++
	if n.fails != nil {
		return n.fails
	}
	for name := range w {
		n.is = string(name)
	}
	return nil
}

// Stop, Start and Stopped are those of manager.Units.
func (n *node) Stop(context.Context) error {
	n.did("stop")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = []string{"nvsm.service"}
	return nil
}

func (n *node) Start(context.Context) error {
	n.did("start")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = nil
	return nil
}

func (n *node) Stopped() ([]string, error) { return n.seen(&n.stopped), nil }

// set changes the node while the manager runs.
func (n *node) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (n *node) create(api, resource, namespace string, object map[string]any) {
	n.Helper()
	object["apiVersion"] = api
	if err := n.admin.Create(n.Context(), kube.Object{API: api, Resource: resource, Namespace: namespace}, object); err != nil {
		n.Fatal(err)
	}
}

// pod creates a pod on the node that holds a MIG device.
func (n *node) pod(namespace, name string) {
	n.Helper()
	n.create("v1", "pods", namespace, map[string]any{
		"kind": "Pod", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"nodeName": n.admin.Node().Name, "terminationGracePeriodSeconds": 0,
			"containers": []any{map[string]any{"name": "main", "image": "image"}},
		},
	})
	n.set(func() { n.users = []manager.User{{Namespace: namespace, Pod: name, GPU: 0, Device: "1g.10gb"}} })
}

// ask sets the label.
func (n *node) ask(config string) {
	n.Helper()
	if err := n.admin.Apply(n.Context(), n.admin.Node(), map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": n.admin.Node().Name, "labels": map[string]string{manager.ConfigLabel: config}},
	}); err != nil {
		n.Fatal(err)
	}
}

// start runs a manager, and returns a function that ends it.
func (n *node) start() (stop func()) {
	ctx, cancel := context.WithCancel(n.Context())
	m := manager.New(n.cfg)
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			n.Errorf("Run() = %v", err)
		}
	})
	n.Cleanup(stop)
	return stop
}

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
	for end := time.Now().Add(20 * time.Second); ; {
		var s shown
		if err := n.admin.Get(n.Context(), n.admin.Node(), &s); err != nil {
			n.Fatal(err)
		}
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

func (n *node) testsALabelIsFollowed() {
	n.ask("all-disabled")
	stop := n.start()
	before := n.succeeds()
	if n.applied != 0 || n.cfg.Contract.Read(contract.MIGReady).State != contract.Valid {
		n.Errorf("a layout that is in effect was applied, or is not reported: %v", n.cfg.Contract.Read(contract.MIGReady))
	}
	n.ask("all-balanced")
	n.until("all-balanced", func(shown) bool {
		return n.cfg.Contract.Read(contract.MIGReady).Values[manager.KeyConfig] == "all-balanced"
	})
	after := n.succeeds()
	if before.Metadata.ResourceVersion == after.Metadata.ResourceVersion {
		n.Error("the label did not change")
	}
	if got := n.seen(&n.events); !slices.Equal(got, []string{"MIGConfigApplied: MIG config all-balanced is in effect"}) {
		n.Errorf("events %q", got)
	}
	// A manager that starts on a node that is as desired writes nothing.
	stop()
	n.start()
	n.until("looked at", func(shown) bool { return len(n.seen(&n.log)) >= 3 }) // recover, apply, recover
	if s := n.succeeds(); s.Metadata.ResourceVersion != after.Metadata.ResourceVersion {
		n.Error("a manager that starts again wrote to the Node")
	}
}

func (n *node) testsAnUnknownConfigFails() {
	n.ask("nonsense")
	n.start()
	n.until("failed", func(s shown) bool { return s.state() == manager.Failed && strings.Contains(s.cause(), "all-balanced") })
	n.ask("all-balanced")
	n.succeeds()
	if got := n.seen(&n.events); len(got) != 2 || !strings.HasPrefix(got[0], "MIGConfigFailed: MIG config nonsense: ") {
		n.Errorf("events %q", got)
	}
}

func (n *node) testsAPodHoldsItBack() {
	n.set(func() { n.users = []manager.User{{Namespace: "default", Pod: "train-0", GPU: 0, Device: "1g.10gb"}} })
	n.ask("all-balanced")
	n.start()
	n.until("pending", func(s shown) bool {
		return s.state() == manager.Pending && strings.Contains(s.cause(), "default/train-0")
	})
	if n.applied != 0 {
		n.Error("it was applied while a pod used what goes")
	}
	n.set(func() { n.users = nil })
	n.succeeds()
	if got := n.seen(&n.events); len(got) != 2 || !strings.HasPrefix(got[0], "MIGConfigWaiting: ") {
		n.Errorf("events %q", got)
	}
}

func (n *node) testsAPodIsEvicted() {
	n.cfg.Options.Policy = manager.EvictPods
	n.pod("of-evict", "train-0")
	n.pod("of-evict", "train-1")
	n.ask("all-balanced")
	n.start()
	n.until("cordoned and train-1 evicted", func(s shown) bool {
		var p struct{}
		err := n.admin.Get(n.Context(), kube.Object{API: "v1", Resource: "pods", Namespace: "of-evict", Name: "train-1"}, &p)
		return s.Spec.Unschedulable && s.Metadata.Annotations[manager.CordonedAnnotation] == "all-balanced" && err != nil
	})
	n.set(func() { n.users = nil })
	n.succeeds()
	var other struct{}
	if err := n.admin.Get(n.Context(), kube.Object{API: "v1", Resource: "pods", Namespace: "of-evict", Name: "train-0"}, &other); err != nil {
		n.Errorf("a pod that holds nothing of it was evicted: %v", err)
	}
}

func (n *node) testsAFailureIsRetried() {
	n.fails = errors.New("create GPU instance 3g.40gb at 4:4: it broke")
	n.ask("all-balanced")
	n.start()
	n.until("failed", func(s shown) bool { return s.state() == manager.Failed && strings.Contains(s.cause(), "it broke") })
	n.until("tried again", func(s shown) bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.applied > 3 && s.state() == manager.Failed
	})
	n.set(func() { n.fails = nil })
	n.succeeds()
	if got := n.seen(&n.events); len(got) != 2 {
		n.Errorf("events %q, want one for the failure and one for the success", got)
	}
}

// testsACordonOfAKilledAgentEnds: the config was taken back meanwhile.
func (n *node) testsACordonOfAKilledAgentEnds() {
	n.cfg.Options.Policy = manager.EvictPods
	n.pod("of-crash", "train-0")
	n.ask("all-balanced")
	stop := n.start()
	n.until("cordoned", func(s shown) bool { return s.Spec.Unschedulable })
	stop()
	n.ask("all-disabled")
	n.start()
	n.succeeds()
}

func (n *node) testsUnitsOfTheHostRunAgain() {
	n.cfg.Units, n.stopped = n, []string{"left.service"}
	n.fails = errors.New("it broke")
	n.ask("all-balanced")
	n.start()
	n.until("failed", func(s shown) bool { return s.state() == manager.Failed })
	n.set(func() { n.fails = nil })
	n.succeeds()
	got := strings.Join(n.seen(&n.log), " ")
	if !strings.HasPrefix(got, "start recover stop apply start") || !strings.HasSuffix(got, "stop apply start") {
		n.Errorf("done: %s", got)
	}
}

func (n *node) testsTheHostIsRebootedOnce() {
	n.cfg.Options.Reboot = true
	n.fails = errors.Join(errors.New("GPU 0"), manager.ErrNeedsReboot)
	n.ask("all-balanced")
	stop := n.start()
	n.until("rebooting", func(s shown) bool { return s.state() == manager.Rebooting && slices.Contains(n.seen(&n.log), "reboot") })
	stop()
	n.start()
	n.until("failed", func(s shown) bool {
		return s.state() == manager.Failed && strings.Contains(s.cause(), "after a reboot")
	})
	n.set(func() { n.fails = nil })
	n.succeeds()
	if got := strings.Count(strings.Join(n.seen(&n.log), " "), "reboot"); got != 1 {
		n.Errorf("%d reboots", got)
	}
}

func (n *node) testsTheDefaultNeedsNoLabel() {
	n.cfg.Default = "all-balanced"
	n.start()
	if s := n.succeeds(); s.Metadata.Labels[manager.ConfigLabel] != "" {
		n.Error("the manager wrote the label of the config")
	}
}
