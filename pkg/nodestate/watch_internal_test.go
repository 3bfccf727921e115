package nodestate

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
)

func client(t *testing.T, s *apitest.API) server {
	t.Helper()
	return server{apitest.Client(t, s.Config, s.Name, "test-agent")}
}

// second returns the error of two results.
func second(_ Node, err error) error { return err }

// labelOwners returns the managers of each label, sorted.
func labelOwners(n Node) map[string][]string {
	of := map[string][]string{}
	for _, m := range n.Managed {
		for _, key := range m.Labels {
			of[key] = append(of[key], m.Manager)
			slices.Sort(of[key])
			of[key] = slices.Compact(of[key])
		}
	}
	return of
}

// seen hands on log lines.
type seen chan string

func (s seen) Write(p []byte) (int, error) {
	s <- string(p)
	return len(p), nil
}

// watched follows the Node until the test ends, and hands on what is delivered
// and logged.
func watched(t *testing.T, s *apitest.API) (nodes chan Node, lines seen) {
	t.Helper()
	nodes, lines = make(chan Node, 64), make(seen, 64)
	c, err := kube.New(kube.Config{
		Server: s.Config.Host, Dir: apitest.Account(t, s.Config), Node: s.Name, Agent: "test-agent", Log: slog.New(slog.NewTextHandler(lines, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { server{c}.watch(ctx, func(n Node) { nodes <- n }) })
	t.Cleanup(func() {
		cancel()
		watching.Wait()
		if len(nodes) > 0 {
			t.Errorf("more nodes than changes: %+v", <-nodes)
		}
	})
	return nodes, lines
}

// next returns what is delivered next.
func next(t *testing.T, nodes <-chan Node) Node {
	t.Helper()
	select {
	case n := <-nodes:
		return n
	case <-time.After(5 * time.Minute):
		t.Fatal("no node was delivered")
		return Node{}
	}
}

func want(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

var ready = Condition{
	Type: "Ready", Status: "True", Reason: "KubeletReady", LastTransition: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
}

func TestWatchNode(t *testing.T) {
	t.Parallel()
	s := apitest.New(t, map[string]string{"a": "1"})
	var images []map[string]any
	for i := range 500 {
		images = append(images, map[string]any{"names": []string{fmt.Sprintf("registry.example/image-%d@sha256:%064d", i, i)}})
	}
	s.Do(http.MethodPatch, "/api/v1/nodes/"+s.Name+"/status", map[string]any{"status": map[string]any{"images": images}}, &struct{}{})
	s.Unavailable(1) // it tries again
	nodes, _ := watched(t, s)
	// is compares the next Node with one whose labels have these managers.
	is := func(n Node, owners map[string][]string) {
		t.Helper()
		got := next(t, nodes)
		want(t, owners, labelOwners(got))
		if got.Version == "" || got.Capacity != nil {
			t.Errorf("version %q, capacity %v", got.Version, got.Capacity)
		}
		got.Version, got.Managed = "", nil
		want(t, n, got)
	}
	node := Node{Labels: map[string]string{"a": "1"}, Conditions: []Condition{ready}}
	is(node, map[string][]string{"a": {"kubelet"}})
	// Neither this nor fewer images say something new.
	s.UpdateStatus("kubelet", func(n *apitest.Node) {
		n.Conditions[0].LastHeartbeatTime = "2026-01-02T04:00:00Z"
	})
	s.Update("kubelet", func(n *apitest.Node) { n.Annotations = map[string]string{"b": "1"} })
	node.Annotations = map[string]string{"b": "1"}
	is(node, map[string][]string{"a": {"kubelet"}})
	s.Update("drainer", func(n *apitest.Node) {
		n.Taints = []apitest.Taint{{Key: "a", Value: "b", Effect: "NoExecute", TimeAdded: "2026-01-02T03:04:05Z"}}
	})
	node.Taints = []Taint{{Key: "a", Value: "b", Effect: "NoExecute"}}
	is(node, map[string][]string{"a": {"kubelet"}})
	s.SetLabels(map[string]string{"a": "2", "b": ""})
	node.Labels = map[string]string{"a": "2", "b": ""}
	is(node, map[string][]string{"a": {"kubectl"}, "b": {"kubectl"}})
	s.UpdateStatus("kubelet", func(n *apitest.Node) { n.Conditions[0].Status = "Unknown" })
	node.Conditions = []Condition{ready}
	node.Conditions[0].Status = "Unknown"
	is(node, map[string][]string{"a": {"kubectl"}, "b": {"kubectl"}})
	s.Cut() // the next watch sees what changes meanwhile
	s.SetLabels(nil)
	node.Labels = nil
	is(node, map[string][]string{})
}

func TestWatchNodeSurvivesTheNode(t *testing.T) {
	t.Parallel()
	s := apitest.New(t, nil)
	nodes, lines := watched(t, s)
	next(t, nodes)
	s.Delete()
	if line := <-lines; !strings.Contains(line, "watched object does not exist, waiting for it") {
		t.Errorf("log line %q", line)
	}
}

func TestWatchNodeIsRetried(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		interrupt func(*apitest.API)
		want      string
	}{
		"after a version that is too old": {func(s *apitest.API) { s.Answer("watch nodes", 410, "too old resource version") }, "watch nodes: the API server answers 410 Gone: too old"},
		"after a right was taken":         {func(s *apitest.API) { s.Forbid("watch nodes") }, "the pod's service account has no role with this verb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := apitest.New(t, nil)
			nodes, lines := watched(t, s)
			next(t, nodes)
			tc.interrupt(s)
			s.Cut()
			for line := <-lines; !strings.Contains(line, tc.want); line = <-lines {
				if !strings.Contains(line, "cannot watch objects, retrying") {
					t.Errorf("log line %q, want %q", line, tc.want)
				}
			}
			s.Answer("watch nodes", 0, "")
			s.SetLabels(map[string]string{"a": "1"})
			want(t, map[string]string{"a": "1"}, next(t, nodes).Labels)
		})
	}
}
