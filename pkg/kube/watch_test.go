package kube_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
)

// labelled is the part of an object that these tests watch.
type labelled struct {
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
}

// state is what a watch delivers: the label "a" by name.
type state map[string]string

// follow watches until the test ends, and hands on what is delivered.
func follow(t *testing.T, c *kube.Client, q kube.Query) <-chan state {
	t.Helper()
	states := make(chan state, 16)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		kube.Watch(ctx, c, q, func(objects []labelled) {
			s := state{}
			for _, o := range objects {
				s[o.Metadata.Name] = o.Metadata.Labels["a"]
			}
			if !slices.IsSortedFunc(objects, func(a, b labelled) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) }) {
				t.Errorf("objects are not ordered: %v", objects)
			}
			states <- s
		})
	})
	t.Cleanup(func() {
		cancel()
		watching.Wait()
		if len(states) > 0 {
			t.Errorf("%d deliveries more than changes: %v", len(states), <-states)
		}
	})
	return states
}

func want(t *testing.T, want state, states <-chan state) {
	t.Helper()
	if diff := cmp.Diff(want, <-states); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestWatchOneObject(t *testing.T) {
	t.Parallel()
	s := apitest.New(t, map[string]string{"a": "1"})
	c := apitest.Client(t, s.Config, s.Name, "test-agent")
	s.Unavailable(1) // it tries again
	states := follow(t, c, kube.Query{Object: c.Node(), Metadata: true})
	want(t, state{s.Name: "1"}, states)
	s.Update("kubectl", func(n *apitest.Node) { n.Annotations = map[string]string{"b": "1"} }) // nothing that is decoded
	s.SetLabels(map[string]string{"a": "2"})
	want(t, state{s.Name: "2"}, states)
	watches := func(n int) {
		t.Helper()
		for s.Requests()["watch nodes"] < n && t.Context().Err() == nil {
			<-time.After(time.Millisecond)
		}
	}
	watches(1)
	s.Cut()
	s.SetLabels(map[string]string{"a": "3"})
	want(t, state{s.Name: "3"}, states)
	watches(2)
}

func TestWatchWaitsForAnObjectThatDoesNotExist(t *testing.T) {
	c, lines := logged(t, apitest.New(t, nil).Config, "other")
	states := follow(t, c, kube.Query{Object: c.Node()})
	if line := <-lines; !strings.Contains(line, "watched object does not exist, waiting for it") || !strings.Contains(line, "name=other") {
		t.Errorf("log line %q", line)
	}
	want(t, state{}, states)
}

// script is an API server that answers one list or watch after the other, and then
// keeps requests waiting.
type script struct {
	t       *testing.T
	queries chan string
	answers []string
	end     chan struct{}
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	query.Del("timeoutSeconds")
	query.Del("allowWatchBookmarks")
	s.queries <- r.URL.Path + "?" + query.Encode()
	if len(s.answers) > 0 {
		answer := s.answers[0]
		s.answers = s.answers[1:]
		_, _ = io.WriteString(w, answer)
		if !strings.HasSuffix(answer, "\n") {
			return // the watch ends
		}
	}
	_ = http.NewResponseController(w).Flush()
	select {
	case <-r.Context().Done():
	case <-s.end:
	}
}

// play starts an API server with a script, and returns a client for it, its log
// and the requests.
func play(t *testing.T, answers ...string) (*kube.Client, seen, <-chan string) {
	t.Helper()
	s := &script{t: t, queries: make(chan string, 16), answers: answers, end: make(chan struct{})}
	server := httptest.NewUnstartedServer(s)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(s.end) })
	dir := t.TempDir()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, data := range map[string][]byte{"token": []byte("t"), "ca.crt": authority} {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	lines := make(seen, 16)
	c, err := kube.New(kube.Config{
		Server: server.URL, Dir: dir, Node: "node1", Agent: "test-agent", Log: slog.New(slog.NewTextHandler(lines, nil)),
	})
	assert.NilError(t, err)
	return c, lines, s.queries
}

// pod returns a Pod of namespace "ns".
func pod(name, label string, version int) string {
	return fmt.Sprintf(`{"kind":"Pod","metadata":{"name":%q,"namespace":"ns","resourceVersion":"%d","labels":{"a":%q}},"spec":{"v":%[2]d}}`, name, version, label)
}

func list(version int, pods ...string) string {
	return fmt.Sprintf(`{"kind":"PodList","metadata":{"resourceVersion":"%d"},"items":[%s]}`, version, strings.Join(pods, ","))
}

func events(all ...string) string {
	var b strings.Builder
	for i := 0; i < len(all); i += 2 {
		fmt.Fprintf(&b, `{"type":%q,"object":%s}`, all[i], all[i+1])
	}
	return b.String()
}

func TestWatchManyObjects(t *testing.T) {
	t.Parallel()
	c, _, queries := play(t,
		list(10, pod("x", "1", 4), pod("b", "1", 7)),
		events("ADDED", pod("c", "1", 11), "MODIFIED", pod("x", "1", 12), "MODIFIED", pod("b", "2", 13), "DELETED", pod("x", "1", 14),
			"BOOKMARK", `{"metadata":{"resourceVersion":"15"}}`),
		events("ERROR", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}`),
		list(30, pod("b", "2", 13), pod("c", "1", 11)),
		events("DELETED", pod("b", "2", 31))+"\n",
	)
	q := kube.Query{Object: kube.Object{API: "v1", Resource: "pods"}, FieldSelector: "spec.nodeName=node1"}
	states := follow(t, c, q)
	want(t, state{"x": "1", "b": "1"}, states)
	want(t, state{"x": "1", "b": "1", "c": "1"}, states)
	want(t, state{"x": "1", "b": "2", "c": "1"}, states)
	want(t, state{"b": "2", "c": "1"}, states)
	want(t, state{"c": "1"}, states)
	const path = "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode1"
	const list = path + "&limit=100"
	for _, want := range []string{
		list, path + "&resourceVersion=10&watch=true", path + "&resourceVersion=15&watch=true", list, path + "&resourceVersion=30&watch=true",
	} {
		if got := <-queries; got != want {
			t.Errorf("request %s\nwant    %s", got, want)
		}
	}
}

// The objects of a node can be larger together than one answer may be.
func TestWatchListsInPages(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 3<<20)
	page := func(next string, pods ...string) string {
		return fmt.Sprintf(`{"kind":"PodList","metadata":{"resourceVersion":"7","continue":%q},"items":[%s]}`, next, strings.Join(pods, ","))
	}
	c, _, queries := play(t, page("more", pod("a", large, 1)), page("last", pod("b", large, 2)), page("", pod("c", "3", 3)),
		events("DELETED", pod("a", large, 8), "DELETED", pod("b", large, 9))+"\n")
	states := follow(t, c, kube.Query{Object: kube.Object{API: "v1", Resource: "pods"}})
	want(t, state{"a": large, "b": large, "c": "3"}, states)
	want(t, state{"b": large, "c": "3"}, states)
	want(t, state{"c": "3"}, states)
	const path = "/api/v1/pods?"
	for _, want := range []string{path + "limit=100", path + "continue=more&limit=100", path + "continue=last&limit=100", path + "resourceVersion=7&watch=true"} {
		if got := <-queries; got != want {
			t.Errorf("request %s\nwant    %s", got, want)
		}
	}
}

func TestWatchRejectsAnEventThatIsTooLarge(t *testing.T) {
	t.Parallel()
	large, err := json.Marshal(strings.Repeat("x", 5<<20))
	assert.NilError(t, err)
	c, lines, _ := play(t, list(1, pod("a", "1", 1)), events("ADDED", string(large))+"\n")
	states := follow(t, c, kube.Query{Object: kube.Object{API: "v1", Resource: "pods"}})
	want(t, state{"a": "1"}, states)
	if line := <-lines; !strings.Contains(line, "more than 4 MiB") {
		t.Errorf("log line %q", line)
	}
}
