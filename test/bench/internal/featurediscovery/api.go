package featurediscovery

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// api is a fake API server with one Node. It stores the writes of one agent. A real API server
// would take processor time from the agent.
type api struct {
	*httptest.Server

	mu       sync.Mutex
	requests map[string]int
	// writes has the body of the last patch of each subresource, and of the taint. manager is the
	// field manager of the patches.
	writes  map[string]string
	manager string
	version int
	// changed is closed to wake watches.
	changed chan struct{}
}

// appliedNode has the fields that an agent applies to a Node.
type appliedNode struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Status struct {
		Conditions []any `json:"conditions"`
	} `json:"status"`
}

func startAPI() *api {
	a := &api{requests: map[string]int{}, writes: map[string]string{}, version: 1, changed: make(chan struct{})}
	a.Server = httptest.NewUnstartedServer(a)
	a.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	a.EnableHTTP2 = true
	a.StartTLS()
	return a
}

// Requests returns the number of requests by verb and resource, in the terms of RBAC.
func (a *api) Requests() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.requests)
}

// ServeHTTP serves requests for nodes. The response to a patch is the Node.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	resource, named := strings.CutPrefix(r.URL.Path, "/api/v1/nodes/"+nodeName)
	verb := map[bool]string{true: "get", false: "list"}[named]
	if !named {
		resource = ""
	}
	switch {
	case r.Method == http.MethodPatch:
		verb = "patch"
		a.write(r, resource)
	case r.URL.Query().Has("watch"):
		verb = "watch"
	}
	a.requests[verb+" nodes"+resource]++
	w.Header().Set("Content-Type", "application/json")
	switch verb {
	case "list":
		send(w, map[string]any{"metadata": map[string]any{"resourceVersion": fmt.Sprint(a.version)}, "items": []any{a.node()}})
	case "watch":
		a.watch(w, r)
	default:
		send(w, a.node())
	}
}

func send(w io.Writer, answer any) { _ = json.NewEncoder(w).Encode(answer) } //nolint:errchkjson // a client that has disconnected

// write stores a patch that changes the labels, changes the condition, or removes the taint.
func (a *api) write(r *http.Request, resource string) {
	if strings.Contains(r.Header.Get("Content-Type"), "json-patch") {
		resource = "taint"
	}
	body, _ := io.ReadAll(r.Body)
	if was, has := a.writes[resource]; has && was == string(body) {
		return
	}
	a.writes[resource], a.manager = string(body), r.URL.Query().Get("fieldManager")
	a.version++
	close(a.changed)
	a.changed = make(chan struct{})
}

// node returns the Node: a new Node with 50 images, the maximum that kubelets report, with the
// writes of the agent applied.
func (a *api) node() map[string]any {
	var labels, status appliedNode
	_, _ = json.Unmarshal([]byte(a.writes[""]), &labels), json.Unmarshal([]byte(a.writes["/status"]), &status) // the bodies are empty at first
	all, owned := map[string]string{"kubernetes.io/hostname": nodeName}, map[string]any{}
	for key, value := range labels.Metadata.Labels {
		all[key], owned["f:"+key] = value, map[string]any{}
	}
	taints, images := []any{map[string]any{"key": "outrigger.dev/gpu-not-ready", "effect": "NoSchedule"}}, make([]any, 50)
	if _, removed := a.writes["taint"]; removed {
		taints = nil
	}
	for i := range images {
		images[i] = map[string]any{"names": []string{fmt.Sprintf("registry.example.com/team/application-%d@sha256:%064x", i, i)}}
	}
	return map[string]any{
		"metadata": map[string]any{
			"name": nodeName, "resourceVersion": fmt.Sprint(a.version), "labels": all, "managedFields": []any{map[string]any{
				"manager": a.manager, "fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": owned}},
			}},
		},
		"spec":   map[string]any{"taints": taints},
		"status": map[string]any{"conditions": status.Status.Conditions, "images": images},
	}
}

// watch sends the Node after each change. The caller holds mu.
func (a *api) watch(w http.ResponseWriter, r *http.Request) {
	for seen := r.URL.Query().Get("resourceVersion"); r.Context().Err() == nil; {
		if now := fmt.Sprint(a.version); now != seen {
			send(w, map[string]any{"type": "MODIFIED", "object": a.node()})
			seen = now
		}
		_ = http.NewResponseController(w).Flush()
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		a.mu.Lock()
	}
}
