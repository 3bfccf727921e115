package kube

import (
	"net/http"
	"testing"
)

// TestPaths has the resource URIs of the Kubernetes API concepts.
func TestPaths(t *testing.T) {
	c := unconnected(t)
	for want, o := range map[string]Object{
		"/api/v1/nodes":                                      {API: "v1", Resource: "nodes"},
		"/api/v1/nodes/n/status":                             {API: "v1", Resource: "nodes", Name: "n", Subresource: "status"},
		"/api/v1/namespaces/a/pods/b/eviction":               {API: "v1", Resource: "pods", Namespace: "a", Name: "b", Subresource: "eviction"},
		"/apis/coordination.k8s.io/v1/namespaces/a/leases/b": {API: "coordination.k8s.io/v1", Resource: "leases", Namespace: "a", Name: "b"},
	} {
		if got := c.request(http.MethodGet, o).URL().Path; got != want {
			t.Errorf("path of %+v\nis   %s\nwant %s", o, got, want)
		}
	}
	outside := Object{API: "v1", Resource: "nodes", Name: "x/..y"}
	if err := c.Get(t.Context(), outside, nil); err == nil {
		t.Error("a name with a path in it is accepted")
	}
}
