package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/definition"
)

// api returns a client of an API server that gives these answers, by method and path. It is asked to
// report each request first.
func api(t *testing.T, answers map[string]string, request func(string)) *cluster.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what := r.Method + " " + r.URL.Path
		request(what)
		w.Header().Set("Content-Type", "application/json")
		text, ok := answers[what]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			text = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	client, err := cluster.New(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// discovery returns what an API server says of its kinds: of one group, and of one kind in it.
func discovery(t *testing.T, group, version string, resource map[string]any) map[string]string {
	t.Helper()
	path, groups := "/api/"+version, []any{}
	gv := map[string]any{"groupVersion": version, "version": version}
	if group != "" {
		gv["groupVersion"] = group + "/" + version
		path = "/apis/" + group + "/" + version
		groups = append(groups, map[string]any{"name": group, "versions": []any{gv}, "preferredVersion": gv})
	}
	out := map[string]string{}
	for at, answer := range map[string]map[string]any{
		"/api":  {"kind": "APIVersions", "versions": []any{"v1"}},
		"/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
		path:    {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": gv["groupVersion"], "resources": []any{resource}},
	} {
		text, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		out["GET "+at] = string(text)
	}
	return out
}

// An orchestrator that is stopped while its kind is not served yet ends without an error of its own.
func TestAnOrchestratorIsStoppedBeforeItsKindIsServed(t *testing.T) {
	answers := discovery(t, "", "v1", map[string]any{"name": "namespaces", "kind": "Namespace", "namespaced": false, "verbs": []any{"get"}})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	client := api(t, answers, func(request string) {
		if request == "GET /apis" {
			stop() // It has asked for its kind.
		}
	})
	if err := definition.Served(ctx, client); !errors.Is(err, context.Canceled) {
		t.Errorf("Served() = %v, want %v", err, context.Canceled)
	}
}
