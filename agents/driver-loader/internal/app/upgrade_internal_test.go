package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/agents/driver-loader/internal/grants"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/loader/loadertest"
	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
)

const (
	// asAgent makes the test binary an agent whose kernel is that of a loadertest.Node. The value is
	// a mortal.
	asAgent = "TEST_AS_AGENT"

	one, two = "580.95.05", "590.10.01"

	policy = `{"maxUnavailable": 1, "gpuPodDeletion": {"force": true}}`
)

// mortal is an agent that kills itself as SIGKILL does when its node gets somewhere for the
// given time.
type mortal struct {
	Node  loadertest.Node
	At    string
	Times int32
}

func TestMain(m *testing.M) {
	agenttest.Main(m, agenttest.Pod(live))
}

// live is the main of an agent.
func live() {
	var m mortal
	if err := json.Unmarshal([]byte(os.Getenv(asAgent)), &m); err != nil {
		panic(err)
	}
	// The mounts of this process are those of its host.
	own, err := os.Readlink("/proc/thread-self/ns/mnt")
	link := filepath.Join(m.Node.Dir, "proc/1/ns/mnt")
	if err := errors.Join(err, os.Remove(link), os.Symlink(own, link)); err != nil {
		panic(err)
	}
	var times atomic.Int32
	m.Node.At = func(what string) {
		if what == m.At && times.Add(1) == m.Times {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	s := &settings{}
	a := newApp(s)
	a.New = func(_ *cli.Context, log *slog.Logger) (*agent.Agent, error) {
		if err := s.complete(log); err != nil {
			return nil, err
		}
		s.config.Calls, s.config.Open = m.Node, m.Node.Open
		return s.agent(log)
	}
	agent.Main(a)
}

// site is a node in a cluster with a real API server, which has no kubelet.
type site struct {
	*testing.T
	loadertest.Node
	server
	operator *kube.Client
	name     string
}

// server is how to reach the API server.
type server struct{ host, account string }

// newSite returns a site whose agent is restricted by the admission policies of the chart.
func newSite(t *testing.T, operator *kube.Client, restricted apitest.Restricted) *site {
	t.Helper()
	name := operator.Node().Name
	s := &site{T: t, Node: loadertest.New(t), operator: operator, name: name}
	s.Stock(t, one)
	s.Stock(t, two)
	s.create("namespaces", map[string]any{"kind": "Namespace", "metadata": map[string]any{"name": name}})
	s.create("nodes", map[string]any{"kind": "Node", "metadata": map[string]any{"name": name, "labels": map[string]any{"site": name}}, "status": map[string]any{
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
	}})
	s.grants()
	rc := restricted(t, name)
	s.server = server{host: rc.Host, account: apitest.Account(t, rc)}
	s.create("pods", map[string]any{
		"kind": "Pod", "metadata": map[string]any{"name": "gpu", "namespace": name},
		"spec": map[string]any{"nodeName": name, "terminationGracePeriodSeconds": 0, "containers": []any{map[string]any{
			"name": "main", "image": "image", "resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": "1"}},
		}}},
	})
	return s
}

// grants grants upgrades to the node until the test ends. Then the node counts for no other test.
func (s *site) grants() {
	s.Helper()
	app := map[string]any{"app": "x"}
	assert.NilError(s, s.operator.Create(s.Context(), kube.Object{API: "apps/v1", Resource: "daemonsets", Namespace: s.name}, map[string]any{
		"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": map[string]any{"name": "driver-loader"},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": app}, "template": map[string]any{
			"metadata": map[string]any{"labels": app}, "spec": map[string]any{"nodeSelector": map[string]any{"site": s.name}, "containers": []any{map[string]any{
				"name": "main", "image": "image", "env": []any{map[string]any{"name": "UPGRADE_POLICY", "value": policy}},
			}}},
		}},
	}))
	w := grants.New(grants.Config{Client: s.operator, Namespace: s.name, Log: slog.New(slog.DiscardHandler)})
	stop := agenttest.Run(s, w.Run)
	s.Cleanup(func() {
		stop()
		forget := []kube.Operation{{Op: "add", Path: "/metadata/annotations", Value: []byte("{}")}, {Op: "add", Path: "/metadata/labels", Value: []byte("{}")}}
		if err := s.operator.Patch(context.WithoutCancel(s.Context()), s.operator.Node(), forget, nil); err != nil {
			s.Error(err)
		}
	})
}

func (s *site) create(resource string, object map[string]any) {
	s.Helper()
	object["apiVersion"] = "v1"
	of := kube.Object{API: "v1", Resource: resource}
	if resource == "pods" {
		of.Namespace = s.name
	}
	assert.NilError(s, s.operator.Create(s.Context(), of, object))
}

// start starts the agent for a version.
func (s *site) start(version string) *agenttest.Process {
	s.Helper()
	return agenttest.Start(s.T, s.command(version, "", 0))
}

// dies runs an agent until it is killed.
func (s *site) dies(version, at string, times int32) {
	s.Helper()
	cmd := s.command(version, at, times)
	log := agenttest.NewLines()
	cmd.Stderr = log
	assert.NilError(s, cmd.Start())
	late := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	if err := cmd.Wait(); !late.Stop() || err == nil {
		s.Fatalf("the agent was not killed at %s (%v):\n%s", at, err, log)
	}
}

// command is the agent for a version, to be killed when it gets somewhere for the given time.
func (s *site) command(version, at string, times int32) *exec.Cmd {
	s.Helper()
	spec, err := json.Marshal(mortal{Node: s.Node, At: at, Times: times})
	assert.NilError(s, err)
	path := func(p string) string { return filepath.Join(s.Dir, p) }
	cmd := agenttest.Command(s.T, nil,
		"--listen", "127.0.0.1:0", "--host-root", path("host"), "--proc-root", path("proc"), "--sys-root", path("sys"), "--run-root", path("run"),
		"--store", path("store"), "--driver-install-dir", path("run/driver"), "--kernel-module-config", path("none"), "--driver-version", version,
		"--kernel-module-type", "open", "--node-name", s.name, "--namespace", s.name, "--daemonset-name", "driver-loader",
		"--upgrade-policy", policy)
	cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	agenttest.InPod(s.T, cmd, s.host, s.account)
	cmd.Env = append(cmd.Env, asAgent+"="+string(spec))
	return cmd
}

// shown is what is seen of the Node.
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

func (s *site) show() (n shown) {
	s.Helper()
	assert.NilError(s, s.operator.Get(s.Context(), s.operator.Node(), &n))
	return n
}

// reaches waits until the Node has a state, and the agent nothing left to do.
func (s *site) reaches(state upgrade.State) shown {
	s.Helper()
	agenttest.Poll(s.T, "the node has the state "+string(state), func() bool {
		j, err := upgrade.ReadJournal(filepath.Join(s.Dir, "store/upgrade.json"))
		return err == nil && j.State == state && s.show().Metadata.Labels[upgrade.StateLabel] == string(state)
	})
	return s.show()
}

// bring starts the agent on the bare node, whose GPU pods are no reason to wait.
func (s *site) bring() {
	s.Helper()
	p := s.start(one)
	s.ready(p)
	before := s.show()
	p.Stop()
	if n := s.show(); s.Loaded() != one || n.Spec.Unschedulable || n.Metadata.Labels[upgrade.StateLabel] != "" || n.Metadata.ResourceVersion != before.Metadata.ResourceVersion {
		s.Errorf("after the first driver, %q is loaded, and the node is %+v", s.Loaded(), n)
	}
}

func (s *site) ready(p *agenttest.Process) {
	s.Helper()
	agenttest.Poll(s.T, "/readyz is 200", func() bool { status, _ := p.Ask("/readyz"); return status == 200 })
}

// podGone reports whether the pod with the GPU was evicted.
func (s *site) podGone() bool {
	s.Helper()
	err := s.operator.Get(s.Context(), kube.Object{API: "v1", Resource: "pods", Namespace: s.name, Name: "gpu"}, &struct{}{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.Fatal(err)
	}
	return err != nil
}

func TestReadyzSaysWhereTheUpgradeIs(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "upgrade.json")
	j := upgrade.Journal{State: upgrade.DeletingPod, Target: two, Cause: &cause.Cause{Code: "X", Subject: "pod a/b", Text: "it stays"}}
	assert.NilError(t, j.Write(journal))
	client := &kube.Client{}
	u := upgrades{Upgrade: upgrade.New(upgrade.Config{Client: client, Journal: journal, Log: slog.New(slog.DiscardHandler)}), client: client}
	assert.NilError(t, u.ready(nil), "while the driver works")
	want := "not loaded\nthe upgrade to driver " + two + " has the state pod-deletion-required\nX: pod a/b: it stays"
	assert.Error(t, u.ready(errors.New("not loaded")), want)
}

func TestReadyzSaysThatTheAPIServerIsAway(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, nil)
	api.Unavailable(math.MaxInt)
	client := apitest.Client(t, api.Config, api.Name, loader.Name)
	u := upgrades{
		Upgrade: upgrade.New(upgrade.Config{Client: client, Journal: filepath.Join(t.TempDir(), "upgrade.json"), Log: slog.New(slog.DiscardHandler)}), client: client,
	}
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { kube.Watch(ctx, client, kube.Query{Object: client.Node()}, func([]struct{}) {}) })
	defer watching.Wait()
	defer stop()
	assert.NilError(t, u.ready(nil), "at the start")
	agenttest.Poll(t, "/readyz to say that the API server is away", func() bool {
		err := u.ready(nil)
		return err != nil && strings.Contains(err.Error(), "changes on the API server are not seen")
	})
}

func TestTheAgentUpgradesItsNode(t *testing.T) {
	rc := apitest.Start(t)
	restricted := apitest.Restrict(t, rc, "../../../../charts/testdata/driver-loader/defaults.golden", "gpu-operator-resources/outrigger-driver-loader")
	for name, test := range map[string]func(*site){
		"upgrade":    (*site).testsAnUpgrade,
		"fail":       (*site).testsADriverThatFails,
		"unfit":      (*site).testsADriverThatIsNotFit,
		"kill":       (*site).testsEachKill,
		"kill-again": (*site).testsADriverThatKillsTheAgent,
	} {
		t.Run(name, func(t *testing.T) { test(newSite(t, apitest.Client(t, rc, name, "kubectl"), restricted)) })
	}
}

func (s *site) testsAnUpgrade() {
	s.bring()
	p := s.start(two)
	n := s.reaches(upgrade.Done)
	s.ready(p)
	if s.Loaded() != two || s.Published() != two || n.Spec.Unschedulable || !s.podGone() {
		s.Errorf("%q is loaded, %q is ready, the node is %+v", s.Loaded(), s.Published(), n)
	}
	if metrics := p.Get("/metrics"); !strings.Contains(metrics, `outrigger_driver_loader_upgrade_state{state="upgrade-done"} 1`) {
		s.Error("/metrics lacks the state of the upgrade")
	}
	p.Stop()
	// A restart changes nothing.
	before := s.show()
	p = s.start(two)
	s.ready(p)
	p.Stop()
	if after := s.show(); after.Metadata.ResourceVersion != before.Metadata.ResourceVersion {
		s.Errorf("a restart wrote the Node: %+v", after)
	}
	// An agent whose DaemonSet does not select the node any more leaves nothing on it.
	p = s.start(two)
	s.ready(p)
	assert.NilError(s, s.operator.Patch(s.Context(), s.operator.Node(), []kube.Operation{{Op: "remove", Path: "/metadata/labels/site"}}, nil))
	p.Stop()
	after := s.show()
	maps.DeleteFunc(after.Metadata.Annotations, func(key, _ string) bool { return key == upgrade.GrantAnnotation })
	if len(after.Metadata.Labels) > 0 || len(after.Metadata.Annotations) > 0 {
		s.Errorf("the agent left %+v", after.Metadata)
	}
}

func (s *site) testsADriverThatFails() {
	s.bring()
	s.Reject(s.T, two)
	p := s.start(two)
	n := s.reaches(upgrade.Failed)
	s.ready(p)
	why := n.Metadata.Annotations[upgrade.CauseAnnotation]
	if s.Loaded() != one || s.Published() != one || n.Spec.Unschedulable || !strings.Contains(why, "module nvidia: its init failed") {
		s.Errorf("%q is loaded, %q is ready, the node is %+v", s.Loaded(), s.Published(), n)
	}
	p.Stop()
	// After a reboot, it has the driver that works.
	s.Reboot(s.T)
	p = s.start(two)
	s.ready(p)
	if s.Loaded() != one {
		s.Errorf("after a reboot, %q is loaded", s.Loaded())
	}
	p.Stop()
	// It is tried again when somebody asks.
	s.Reject(s.T, "")
	p = s.start(two)
	ask := []kube.Operation{{Op: "add", Path: "/metadata/annotations/" + strings.ReplaceAll(upgrade.RequestedAnnotation, "/", "~1"), Value: []byte(`"true"`)}}
	assert.NilError(s, s.operator.Patch(s.Context(), s.operator.Node(), ask, nil))
	s.reaches(upgrade.Done)
	if s.Loaded() != two {
		s.Errorf("on request, %q is loaded", s.Loaded())
	}
	p.Stop()
}

func (s *site) testsADriverThatIsNotFit() {
	s.bring()
	p := s.start("600.1")
	assert.NilError(s, p.Log.Wait(agenttest.Deadline(s.T), "code=DriverMissing"))
	s.ready(p)
	if n := s.show(); n.Spec.Unschedulable || n.Metadata.Labels[upgrade.StateLabel] != "" || s.podGone() || s.Loaded() != one {
		s.Errorf("%q is loaded, the node is %+v", s.Loaded(), n)
	}
	p.Stop()
}

func (s *site) testsEachKill() {
	s.bring()
	version := one
	for _, k := range []struct {
		at    string
		times int32
	}{
		{"unload nvidia_modeset", 1},
		{"unload nvidia", 1},
		{"load nvidia", 1},
		{"load nvidia_uvm", 1},
		{"open nvidia0", 2}, // in the swap; the first is at the start
		{"open nvidia0", 3}, // in the validation
	} {
		from := version
		version = map[string]string{one: two, two: one}[version]
		s.dies(version, k.at, k.times)
		p := s.start(version)
		n := s.reaches(upgrade.Done)
		s.ready(p)
		p.Stop()
		if s.Loaded() != version || s.Published() != version || n.Spec.Unschedulable || n.Metadata.Annotations[upgrade.CordonedAnnotation] != "" {
			s.Errorf("killed at %s on the way from %s to %s: %q is loaded, %q is ready, the node is %+v", k.at, from, version, s.Loaded(), s.Published(), n)
		}
	}
}

func (s *site) testsADriverThatKillsTheAgent() {
	s.bring()
	for range 3 {
		s.dies(two, "load nvidia_uvm", 1)
		s.Reboot(s.T)
	}
	p := s.start(two)
	n := s.reaches(upgrade.Failed)
	s.ready(p)
	p.Stop()
	if s.Loaded() != one || n.Spec.Unschedulable || !strings.Contains(n.Metadata.Annotations[upgrade.CauseAnnotation], "stopped 3 times") {
		s.Errorf("%q is loaded, the node is %+v", s.Loaded(), n)
	}
}
