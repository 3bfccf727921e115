package controller_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/cluster/clustertest"
	"outrigger.dev/orchestrator/internal/controller"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/pools"
	"outrigger.dev/orchestrator/internal/render"
	"outrigger.dev/pkg/agent/agenttest"
)

// keep returns what makes a policy in memory that of a controller.
func keep(p *policy) func(*observe.Observer) controller.Policies {
	return func(*observe.Observer) controller.Policies { return p }
}

func TestController(t *testing.T) {
	r := &rig{clustertest.New(t)}
	t.Run("an upgraded API server gets what is rendered for it", func(t *testing.T) { upgrade(r.in(t)) })
	t.Run("an object of somebody else is refused, and applied once it is gone", func(t *testing.T) { foreign(r.in(t)) })
	t.Run("a DaemonSet is repaired", func(t *testing.T) { repaired(r.in(t)) })
	t.Run("a fight with another controller is told, and slows down", func(t *testing.T) { fight(r.in(t)) })
}

// one returns what renders a stage of one object.
func one(o *unstructured.Unstructured) controller.Render {
	return func(model.Policy, string, pools.Kinds) ([]model.Stage, error) {
		return []model.Stage{{Name: "s", Objects: []*unstructured.Unstructured{o}}}, nil
	}
}

// message waits until the only stage is in a state, with a text in its message.
func (p *policy) message(t testing.TB, state, text string) {
	t.Helper()
	agenttest.Poll(t, "the state "+state+": "+text, func() bool {
		stages := p.status().Stages
		return len(stages) == 1 && stages[0].State == state && strings.Contains(stages[0].Message, text)
	})
}

func foreign(r *rig) {
	desired := configMap("foreign", map[string]any{"is": "ours"})
	ref := model.RefOf(desired)
	other := desired.DeepCopy()
	other.Object["data"] = map[string]any{"is": "theirs"}
	r.writeAs("somebody", other)
	p := &policy{now: model.Policy{Name: "p", UID: "1"}}
	r.run(r.Connect(), keep(p), one(desired))
	p.message(r, model.Failed, "managed by somebody")
	if got := r.Get(ref); !cmp.Equal(got.Object["data"], other.Object["data"]) {
		r.Errorf("it was changed to %v", got.Object["data"])
	}
	r.Delete(ref)
	p.message(r, model.Ready, "")
}

func repaired(r *rig) {
	image := func(image string) *unstructured.Unstructured {
		labels := map[string]any{render.ManagedBy: model.FieldManager}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": map[string]any{"name": "agent", "namespace": "default", "labels": labels},
			"spec": map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "agent", "image": image}}},
			}},
		}}
	}
	p := &policy{now: model.Policy{Name: "p", UID: "1"}}
	r.run(r.Connect(), keep(p), one(image("ours")))
	p.message(r, model.Ready, "no node matches")
	if told := p.told("DriftRepaired"); len(told) > 0 {
		r.Errorf("repaired although nobody has changed it: %q", told)
	}
	r.writeAs("somebody", image("theirs"))
	ref := model.RefOf(image("ours"))
	agenttest.Poll(r, "the repair", func() bool {
		containers, _, err := unstructured.NestedSlice(r.Get(ref).Object, "spec", "template", "spec", "containers")
		return err == nil && containers[0].(map[string]any)["image"] == "ours" //nolint:forcetypeassert // the API server checks it
	})
	if told := p.told("DriftRepaired"); len(told) != 1 || !strings.Contains(told[0], "changed by somebody") {
		r.Errorf("Events about repairs: %q", told)
	}
}

func fight(r *rig) {
	desired := configMap("fought-for", map[string]any{"is": "ours"})
	p := &policy{now: model.Policy{Name: "p", UID: "1"}}
	r.run(r.Connect(), keep(p), one(desired))
	p.message(r, model.Ready, "")
	theirs := desired.DeepCopy()
	theirs.Object["data"] = map[string]any{"is": "theirs"}
	agenttest.Poll(r, "the name of the rival in the status", func() bool {
		r.writeAs("rival", theirs)
		stages := p.status().Stages
		return len(stages) == 1 && stages[0].State == model.Failed && strings.Contains(stages[0].Message, "rival changes it")
	})
	// The rival gives up.
	p.message(r, model.Ready, "")
	if got := r.Get(model.RefOf(desired)); !cmp.Equal(got.Object["data"], desired.Object["data"]) {
		r.Errorf("it is %v at the end", got.Object["data"])
	}
	if told := p.told("DriftRepaired"); len(told) == 0 || len(told) > 8 || !strings.Contains(told[0], "changed by rival") {
		r.Errorf("Events about repairs: %q", told)
	}
}

// server is the connection to an API server that can be replaced by one of another version.
type server struct {
	http.RoundTripper
	mu      sync.Mutex
	version string
	watches []io.Closer
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case req.URL.Path == "/version" && s.version != "":
		_ = resp.Body.Close()
		text := `{"gitVersion":"` + s.version + `"}`
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewBufferString(text)), int64(len(text))
		resp.Header.Set("Content-Type", "application/json")
	case req.URL.Query().Get("watch") != "":
		s.watches = append(s.watches, resp.Body)
	}
	return resp, nil
}

// upgrade ends all watches, as a server does when it ends, and answers with another version.
func (s *server) upgrade(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
	for _, w := range s.watches {
		_ = w.Close()
	}
	s.watches = nil
}

func upgrade(r *rig) {
	s := &server{}
	rc := *r.REST
	rc.WrapTransport = func(rt http.RoundTripper) http.RoundTripper {
		s.RoundTripper = rt
		return s
	}
	client, err := cluster.New(&rc)
	if err != nil {
		r.Fatal(err)
	}
	r.run(client, keep(&policy{now: model.Policy{Name: "p", UID: "1"}}), func(_ model.Policy, kubernetes string, _ pools.Kinds) ([]model.Stage, error) {
		return []model.Stage{{Name: "s", Objects: []*unstructured.Unstructured{configMap("version", map[string]any{"is": kubernetes})}}}, nil
	})
	is := func(want string) func() bool {
		return func() bool {
			o := r.Get(model.RefOf(configMap("version", nil)))
			if o == nil {
				return false
			}
			got, _, _ := unstructured.NestedString(o.Object, "data", "is")
			return got != "" && (want == "" || got == want)
		}
	}
	agenttest.Poll(r, "the first version", is(""))
	s.upgrade("v9.99.0")
	agenttest.Poll(r, "the version after the upgrade", is("v9.99.0"))
}
