package kube

import "testing"

// TestPaths has the resource URIs of the Kubernetes API concepts.
func TestPaths(t *testing.T) {
	for want, o := range map[string]Object{
		"/api/v1/nodes":                                        {API: "v1", Resource: "nodes"},
		"/api/v1/nodes/n/status":                               {API: "v1", Resource: "nodes", Name: "n", Subresource: "status"},
		"/api/v1/namespaces/a/pods/b/eviction":                 {API: "v1", Resource: "pods", Namespace: "a", Name: "b", Subresource: "eviction"},
		"/apis/coordination.k8s.io/v1/namespaces/a/leases/b":   {API: "coordination.k8s.io/v1", Resource: "leases", Namespace: "a", Name: "b"},
		"/apis/outrigger.dev/v1alpha1/clusterpolicies/x%2F..y": {API: "outrigger.dev/v1alpha1", Resource: "clusterpolicies", Name: "x/..y"},
	} {
		if got := o.path(); got != want {
			t.Errorf("path of %+v\nis   %s\nwant %s", o, got, want)
		}
	}
}
