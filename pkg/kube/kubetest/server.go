// Package kubetest is an API server for tests, over a real HTTP/2 connection: one
// Node with its watch, NodeFeatures, pods, DaemonSets and Events.
//
// The libraries of the real API server merge what clients apply and patch, so field
// managers, conflicts and tests in a patch behave as they do there.
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
	"time"
)

// Server is an API server with one Node.
type Server struct {
	// Events receives each Event that is created.
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
	// daemonSets are by namespace and name.
	daemonSets map[string]map[string]any
	version    int

	requests    map[string]int
	unavailable int
	answers     map[string]*failure
	hooks       map[string]func()

	// changed is closed to wake watches.
	changed chan struct{}
	// notices are the events that watches get besides the changes of the Node.
	notices []notice
	// ends counts the calls of EndWatches.
	ends int
}

// New starts a Server that stops when the test ends. Its Node has the labels, and a
// condition Ready that is true.
func New(t testing.TB, node string, labels map[string]string) *Server {
	t.Helper()
	s := Start(node, labels)
	t.Cleanup(s.Close)
	return s
}

// Start is New for a program that is not a test. Close stops the Server.
func Start(node string, labels map[string]string) *Server {
	s := &Server{
		Events: make(chan Event, 64),
		token:  "token-of-the-pod", nodeName: node, node: newObject(nodeType), pods: map[string]map[string]any{}, daemonSets: map[string]map[string]any{}, version: 1,
		requests: map[string]int{}, answers: map[string]*failure{}, hooks: map[string]func(){},
		changed: make(chan struct{}),
	}
	s.node.doc["metadata"] = map[string]any{"name": node, "uid": "uid-of-" + node}
	s.Update("kubelet", func(n *Node) {
		n.Labels = maps.Clone(labels)
		n.Conditions = []Condition{{Type: "Ready", Status: "True", Reason: "KubeletReady", LastTransitionTime: "2026-01-02T03:04:05Z"}}
	})
	s.http = httptest.NewUnstartedServer(s.routes())
	// Clients that leave in the middle of a handshake are expected.
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
		"GET /api/v1/namespaces/{namespace}/pods/{name}":             {"get", "pods", s.getPod},
		"GET /apis/apps/v1/namespaces/{namespace}/daemonsets/{name}": {"get", "daemonsets", s.getDaemonSet},
		"POST /api/v1/namespaces/{namespace}/events":                 {"create", "events", s.createEvent},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(route, w, r) })
	}
	return mux
}

// route is a kind of request, in the terms of RBAC.
type route struct {
	verb, resource string
	// answer returns an object or a failure. The caller holds the lock.
	answer func(*http.Request) (any, *failure)
}

func (s *Server) serve(route route, w http.ResponseWriter, r *http.Request) {
	if route.verb == "list" && r.URL.Query().Get("watch") == "true" {
		route.verb = "watch"
	}
	w.Header().Set("Content-Type", "application/json")
	if failed := s.admit(route.verb+" "+route.resource, r); failed != nil {
		failed.write(w)
		return
	}
	if route.verb == "watch" {
		s.watch(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	object, failed := route.answer(r)
	if failed != nil {
		failed.write(w)
		return
	}
	_ = json.NewEncoder(w).Encode(object) //nolint:errchkjson // a client that is gone
}

// admit counts a request, and returns why it fails, nil if it does not.
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
	case s.unavailable > 0:
		s.unavailable--
		return &failure{code: http.StatusServiceUnavailable, message: "not now"}
	default:
		return s.answers[request]
	}
}

// Dir returns a folder with a token and a certificate, as a pod has them.
func (s *Server) Dir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := s.WriteDir(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// WriteDir is Dir for a folder that exists.
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

// RotateToken makes another token the only valid one, and writes it to a folder
// that Dir has returned.
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

// Requests returns the number of requests of each kind, in the terms of RBAC: "patch
// nodes/status". It includes requests that failed.
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// Unavailable answers the next n requests with 503.
func (s *Server) Unavailable(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unavailable = n
}

// Answer answers all requests of a kind, "patch nodes", with a code and a message,
// until it is called with the code 0.
func (s *Server) Answer(request string, code int, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.answers, request)
	if code != 0 {
		s.answers[request] = &failure{code: code, message: message}
	}
}

// Overload answers all requests of a kind with 429, as an API server does that has too many: the
// client is to try again after a number of seconds. Answer ends it.
func (s *Server) Overload(request string, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[request] = &failure{code: http.StatusTooManyRequests, message: "too many requests", after: after}
}

// Forbid rejects all requests of a kind, as RBAC does.
func (s *Server) Forbid(request string) {
	var verb, resource string
	_, _ = fmt.Sscan(request, &verb, &resource)
	s.Answer(request, http.StatusForbidden, forbidden(verb, resource))
}

// Before runs hook once, before the next request of a kind is handled: it stands for
// another client that writes at that moment.
func (s *Server) Before(request string, hook func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks[request] = hook
}
