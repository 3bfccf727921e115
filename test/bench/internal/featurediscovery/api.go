package featurediscovery

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// api is an API server with one Node, which stores what one agent applies. A real one would take
// the machine from the agent that is measured.
type api struct {
	http *httptest.Server

	mu       sync.Mutex
	requests map[string]int
	version  int
	// joined is the Node as it joined, and is as it is now.
	joined, is document
	// changed is closed to wake watches, and gone to end them.
	changed, gone chan struct{}
}

// document is the part of a Node that agents read and write.
type document struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Taints []any `json:"taints,omitempty"`
	} `json:"spec"`
	Status struct {
		Conditions []any            `json:"conditions"`
		Images     []map[string]any `json:"images,omitempty"`
	} `json:"status"`
}

type metadata struct {
	Name            string            `json:"name"`
	ResourceVersion string            `json:"resourceVersion"`
	Labels          map[string]string `json:"labels"`
	ManagedFields   []any             `json:"managedFields"`
}

// startAPI starts an API server with a Node that has just joined: with the start-up taint, and with
// 50 images, the most that kubelets report.
func startAPI() *api {
	a := &api{requests: map[string]int{}, version: 1, changed: make(chan struct{}), gone: make(chan struct{})}
	a.is.Metadata = metadata{Name: nodeName, Labels: map[string]string{"kubernetes.io/hostname": nodeName}}
	a.is.Spec.Taints = []any{map[string]any{"key": "outrigger.dev/gpu-not-ready", "effect": "NoSchedule"}}
	a.is.Status.Conditions = []any{map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}}
	for i := range 50 {
		a.is.Status.Images = append(a.is.Status.Images, map[string]any{
			"names": []string{fmt.Sprintf("registry.example.com/team/application-%d@sha256:%064x", i, i)},
		})
	}
	a.joined = a.is
	a.http = httptest.NewUnstartedServer(a)
	a.http.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	a.http.EnableHTTP2 = true
	a.http.StartTLS()
	return a
}

func (a *api) close() {
	close(a.gone)
	a.http.Close()
}

// account writes the token and the certificate of a pod to a folder.
func (a *api) account(dir string) error {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.http.Certificate().Raw})
	return errors.Join(os.WriteFile(filepath.Join(dir, "token"), []byte("token"), 0o600), os.WriteFile(filepath.Join(dir, "ca.crt"), authority, 0o600))
}

// Requests returns the number of requests of each kind, in the terms of RBAC.
func (a *api) Requests() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.requests)
}

// ServeHTTP answers requests about nodes.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	resource := strings.Replace(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/"+nodeName, "", 1)
	named := strings.Contains(r.URL.Path, "/"+nodeName)
	switch {
	case r.Method == http.MethodPatch:
		a.requests["patch "+resource]++
		a.patch(r)
	case r.URL.Query().Has("watch"):
		a.requests["watch "+resource]++
		a.watch(w, r)
		return
	case !named:
		a.requests["list "+resource]++
		a.send(w, map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(a.version)}, "items": []any{a.node()}})
		return
	default:
		a.requests["get "+resource]++
	}
	a.send(w, a.node())
}

func (a *api) send(w http.ResponseWriter, answer any) {
	_ = json.NewEncoder(w).Encode(answer) //nolint:errchkjson // a client that is gone
}

func (a *api) node() document {
	a.is.Metadata.ResourceVersion = strconv.Itoa(a.version)
	return a.is
}

// patch stores what the agent applies. Its only other patch removes the taint.
func (a *api) patch(r *http.Request) {
	before, _ := json.Marshal(a.is) //nolint:errchkjson // plain values
	var config document
	switch err := json.NewDecoder(r.Body).Decode(&config); {
	case err != nil:
		a.is.Spec.Taints = nil
	case strings.HasSuffix(r.URL.Path, "/status"):
		a.is.Status.Conditions = append(a.joined.Status.Conditions[:1:1], config.Status.Conditions...)
	default:
		a.is.Metadata.Labels = maps.Clone(a.joined.Metadata.Labels)
		maps.Copy(a.is.Metadata.Labels, config.Metadata.Labels)
		fields := map[string]any{}
		for key := range config.Metadata.Labels {
			fields["f:"+key] = map[string]any{}
		}
		a.is.Metadata.ManagedFields = []any{map[string]any{
			"manager": r.URL.Query().Get("fieldManager"), "fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": fields}},
		}}
	}
	if after, _ := json.Marshal(a.is); string(after) != string(before) { //nolint:errchkjson // plain values
		a.version++
		close(a.changed)
		a.changed = make(chan struct{})
	}
}

// watch sends the Node after each change. The caller holds the lock.
func (a *api) watch(w http.ResponseWriter, r *http.Request) {
	seen, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	for {
		if a.version > seen {
			a.send(w, map[string]any{"type": "MODIFIED", "object": a.node()})
			seen = a.version
		}
		_ = http.NewResponseController(w).Flush()
		changed := a.changed
		a.mu.Unlock()
		ended := false
		select {
		case <-changed:
		case <-a.gone:
			ended = true
		case <-r.Context().Done():
			ended = true
		}
		a.mu.Lock()
		if ended {
			return
		}
	}
}
