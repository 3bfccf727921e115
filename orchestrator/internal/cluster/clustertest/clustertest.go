// Package clustertest connects tests to a real API server with the orchestrator's client.
package clustertest

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/kube/apitest"
)

// Cluster is an API server with a client that may do everything. Its methods end the test on an
// error.
type Cluster struct {
	*testing.T
	REST   *rest.Config
	Client *cluster.Client
}

// New starts an API server until the end of the test. It returns when the namespace default exists.
func New(t *testing.T) Cluster {
	t.Helper()
	c := Cluster{T: t, REST: apitest.Start(t)}
	c.Client = c.Connect()
	agenttest.Poll(t, "the namespace default", func() bool { return c.Get(model.Ref{APIVersion: "v1", Kind: "Namespace", Name: "default"}) != nil })
	return c
}

// In returns the same cluster for a subtest: the failures of the subtest are reported to t.
func (c Cluster) In(t *testing.T) Cluster {
	c.T = t
	return c
}

// Connect returns a new client.
func (c Cluster) Connect() *cluster.Client {
	c.Helper()
	client, err := cluster.New(rest.CopyConfig(c.REST))
	if err != nil {
		c.Fatal(err)
	}
	return client
}

// Get returns an object, or nil if it does not exist.
func (c Cluster) Get(r model.Ref) *unstructured.Unstructured {
	c.Helper()
	o, err := c.Client.Get(c.Context(), r)
	if err != nil {
		c.Fatal(err)
	}
	return o
}

// Create creates an object. It waits until the namespace exists and the kind is served.
func (c Cluster) Create(o *unstructured.Unstructured) {
	c.Helper()
	agenttest.Poll(c, "the creation of "+model.RefOf(o).String(), func() bool {
		c.Client.Refresh()
		return c.Client.Create(c.Context(), o) == nil
	})
}

// Patch changes an object, or a subresource of it, with a merge patch.
func (c Cluster) Patch(r model.Ref, subresource string, patch map[string]any) {
	c.Helper()
	if _, err := c.Client.Patch(c.Context(), r, subresource, patch); err != nil {
		c.Fatal(err)
	}
}

// Delete deletes an object.
func (c Cluster) Delete(r model.Ref) {
	c.Helper()
	if err := c.Client.Delete(c.Context(), r, ""); err != nil {
		c.Fatal(err)
	}
}
