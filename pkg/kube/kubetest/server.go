// Package kubetest has an API server for tests: the Node of one name, its
// watch, and the Events that were sent, over a real connection.
package kubetest

import (
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// Event is what an Event object says.
type Event struct {
	Type           string `json:"type"`
	Reason         string `json:"reason"`
	Message        string `json:"message"`
	InvolvedObject struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
		UID  string `json:"uid"`
	} `json:"involvedObject"`
	Metadata struct {
		Namespace    string `json:"namespace"`
		GenerateName string `json:"generateName"`
	} `json:"metadata"`
	ReportingComponent string `json:"reportingComponent"`
}

// Server is an API server that knows one Node.
type Server struct {
	// Events carries each Event that was created.
	Events chan Event
	// Listed tells that the Node was listed. What nobody takes is dropped.
	Listed chan struct{}

	http *httptest.Server
	node string

	mu      sync.Mutex
	labels  map[string]string
	version int
	refuse  int
	changed chan struct{}
	// ends is closed to end the watches that are open.
	ends chan struct{}
}

// New starts a Server that is stopped when the test ends.
func New(t testing.TB, node string, labels map[string]string) *Server {
	s := &Server{
		Events: make(chan Event, 64), Listed: make(chan struct{}, 1), node: node, labels: maps.Clone(labels), version: 1,
		changed: make(chan struct{}), ends: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes", s.nodes)
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/events", s.event)
	s.http = httptest.NewTLSServer(mux)
	t.Cleanup(func() {
		s.EndWatches()
		s.http.Close()
	})
	return s
}

// token is what the server wants to be shown.
const token = "token-of-the-pod"

// Dir writes what a pod is given to reach the server, and returns the folder.
func (s *Server) Dir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	for name, data := range map[string][]byte{"token": []byte(token + "\n"), "ca.crt": authority} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// URL returns the address of the server.
func (s *Server) URL() string { return s.http.URL }

// SetLabels replaces the labels of the Node. Watches are told.
func (s *Server) SetLabels(labels map[string]string) {
	s.change(func() { s.labels = maps.Clone(labels) })
}

// Touch changes the Node, but not its labels. Watches are told.
func (s *Server) Touch() { s.change(func() {}) }

// Refuse answers the next n requests with 503.
func (s *Server) Refuse(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = n
}

// EndWatches ends the watches that are open, in good order.
func (s *Server) EndWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ends)
	s.ends = make(chan struct{})
}

func (s *Server) change(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.version++
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) refused(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Authorization") != "Bearer "+token {
		http.Error(w, `{"kind":"Status","message":"Unauthorized"}`, http.StatusUnauthorized)
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse == 0 {
		return false
	}
	s.refuse--
	http.Error(w, "not now", http.StatusServiceUnavailable)
	return true
}

func (s *Server) nodes(w http.ResponseWriter, r *http.Request) {
	if s.refused(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	if query.Get("watch") == "" {
		s.list(w, query.Get("fieldSelector"))
		return
	}
	s.watch(w, r)
}

func (s *Server) list(w http.ResponseWriter, selector string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.Listed <- struct{}{}:
	default:
	}
	items := []any{}
	if selector == "metadata.name="+s.node {
		items = append(items, s.object())
	}
	list := map[string]any{
		"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items,
	}
	_ = json.NewEncoder(w).Encode(list) //nolint:errchkjson // a client that is gone
}

// object returns the Node. The lock is held.
func (s *Server) object() any {
	return map[string]any{
		"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
		"metadata": map[string]any{"name": s.node, "labels": maps.Clone(s.labels), "resourceVersion": strconv.Itoa(s.version)},
	}
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	seen, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	s.mu.Lock()
	ends := s.ends
	s.mu.Unlock()
	w.WriteHeader(http.StatusOK)
	for {
		_ = http.NewResponseController(w).Flush()
		s.mu.Lock()
		version, object, changed := s.version, s.object(), s.changed
		s.mu.Unlock()
		if version > seen {
			seen = version
			if err := json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": object}); err != nil {
				return
			}
			continue
		}
		select {
		case <-changed:
		case <-ends:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (s *Server) event(w http.ResponseWriter, r *http.Request) {
	if s.refused(w, r) {
		return
	}
	var ev Event
	if err := json.NewDecoder(r.Body).Decode(&ev); err != nil || ev.Metadata.Namespace != r.PathValue("namespace") {
		http.Error(w, "no Event of this namespace", http.StatusBadRequest)
		return
	}
	s.Events <- ev
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(ev) //nolint:errchkjson // a client that is gone
}
