// Package kubetest has an API server for tests, over a real connection: one
// Node with its watch, NodeFeatures, pods, and the Events that were sent.
//
// What is applied and patched is merged by the libraries of the real API server,
// so that field managers, conflicts and tests in a patch mean here what they mean
// there.
package kubetest

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Server is an API server that knows one Node.
type Server struct {
	// Events carries each Event that was created.
	Events chan Event

	http *httptest.Server

	mu    sync.Mutex
	token string
	// node is nil after its deletion.
	node     *object
	nodeName string
	// features are the NodeFeatures by namespace and name, nil while their API is
	// not installed.
	features map[string]*object
	pods     map[string]map[string]any
	version  int

	requests map[string]int
	refuse   int
	answers  map[string]*failure
	hooks    map[string]func()

	// changed is closed to wake watches.
	changed chan struct{}
	// told are the events that watches are sent besides the changes of the Node.
	told []told
	// ends counts the calls of EndWatches.
	ends int
}

// New starts a Server that is stopped when the test ends. Its Node has the
// labels, and is ready, as the kubelet says.
func New(t testing.TB, node string, labels map[string]string) *Server {
	t.Helper()
	s := Start(node, labels)
	t.Cleanup(s.Close)
	return s
}

// Start is New for a program that is no test. Close stops the Server.
func Start(node string, labels map[string]string) *Server {
	s := &Server{
		Events: make(chan Event, 64),
		token:  "token-of-the-pod", nodeName: node, node: newObject(nodeType), pods: map[string]map[string]any{}, version: 1,
		requests: map[string]int{}, answers: map[string]*failure{}, hooks: map[string]func(){},
		changed: make(chan struct{}),
	}
	s.node.doc["metadata"] = map[string]any{"name": node, "uid": "uid-of-" + node}
	s.Update("kubelet", func(n *Node) {
		n.Labels = maps.Clone(labels)
		n.Conditions = []Condition{{Type: "Ready", Status: "True", Reason: "KubeletReady", LastTransitionTime: "2026-01-02T03:04:05Z"}}
	})
	s.http = httptest.NewUnstartedServer(s.routes())
	// Clients that end in the middle of a handshake are no news.
	s.http.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.http.EnableHTTP2 = true
	s.http.StartTLS()
	return s
}

// Close ends the watches, and stops the Server.
func (s *Server) Close() {
	s.EndWatches()
	s.http.Close()
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	const (
		node     = "/api/v1/nodes/{name}"
		features = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{namespace}/nodefeatures/{name}"
	)
	for pattern, route := range map[string]route{
		"GET /api/v1/nodes":         {"list", "nodes", s.listNodes},
		"GET " + node:               {"get", "nodes", s.getNode},
		"PATCH " + node:             {"patch", "nodes", s.patchNode},
		"PATCH " + node + "/status": {"patch", "nodes/status", s.patchNode},
		"GET " + features:           {"get", "nodefeatures", s.getFeature},
		"PATCH " + features:         {"patch", "nodefeatures", s.patchFeature},
		"GET /api/v1/namespaces/{namespace}/pods/{name}": {"get", "pods", s.getPod},
		"POST /api/v1/namespaces/{namespace}/events":     {"create", "events", s.createEvent},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(route, w, r) })
	}
	return mux
}

// route is one kind of request, in the words of RBAC.
type route struct {
	verb, resource string
	// answer returns an object, or why there is none. The lock is held.
	answer func(*http.Request) (any, *failure)
}

func (s *Server) serve(route route, w http.ResponseWriter, r *http.Request) {
	if route.verb == "list" && r.URL.Query().Get("watch") == "true" {
		route.verb = "watch"
	}
	w.Header().Set("Content-Type", "application/json")
	if refusal := s.admit(route.verb+" "+route.resource, r); refusal != nil {
		refusal.write(w)
		return
	}
	if route.verb == "watch" {
		s.watch(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	object, refusal := route.answer(r)
	if refusal != nil {
		refusal.write(w)
		return
	}
	_ = json.NewEncoder(w).Encode(object) //nolint:errchkjson // a client that is gone
}

// admit counts a request, and returns why it is not served.
func (s *Server) admit(request string, r *http.Request) *failure {
	s.mu.Lock()
	s.requests[request]++
	hook := s.hooks[request]
	delete(s.hooks, request)
	s.mu.Unlock()
	if hook != nil {
		hook()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != "Bearer "+s.token:
		return &failure{code: http.StatusUnauthorized, message: "Unauthorized"}
	case s.refuse > 0:
		s.refuse--
		return &failure{code: http.StatusServiceUnavailable, message: "not now"}
	default:
		return s.answers[request]
	}
}

// Dir writes what a pod is given to reach the server, and returns the folder.
func (s *Server) Dir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := s.WriteDir(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// WriteDir is Dir for a folder that is there.
func (s *Server) WriteDir(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	for name, data := range map[string][]byte{"token": []byte(s.token + "\n"), "ca.crt": authority} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// RotateToken has the server want another token, and puts it into a folder that
// Dir has returned.
func (s *Server) RotateToken(t testing.TB, dir string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = "next-" + s.token
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(s.token), 0o600); err != nil {
		t.Fatal(err)
	}
}

// URL returns the address of the server.
func (s *Server) URL() string { return s.http.URL }

// Requests returns how many requests of each kind have come, in the words of
// RBAC: "patch nodes/status". Those that were refused are counted too.
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// Refuse answers the next n requests with 503.
func (s *Server) Refuse(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = n
}

// Answer has all requests of a kind, "patch nodes", answered with a code and a
// message, until it is called with the code 0.
func (s *Server) Answer(request string, code int, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.answers, request)
	if code != 0 {
		s.answers[request] = &failure{code: code, message: message}
	}
}

// Forbid has all requests of a kind refused, as RBAC does.
func (s *Server) Forbid(request string) {
	var verb, resource string
	_, _ = fmt.Sscan(request, &verb, &resource)
	s.Answer(request, http.StatusForbidden, forbidden(verb, resource))
}

// Before runs hook once, before the next request of a kind is looked at: for what
// others do at that moment.
func (s *Server) Before(request string, hook func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks[request] = hook
}
