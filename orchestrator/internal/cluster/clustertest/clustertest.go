// Package clustertest connects tests to a real API server with the orchestrator's client.
package clustertest

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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

// CreateTyped creates an object of a type of the API, and sets its status.
func (c Cluster) CreateTyped(apiVersion, kind string, o any) {
	c.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		c.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: fields}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	c.Create(object.DeepCopy())
	if status, is := fields["status"].(map[string]any); is && len(status) > 0 {
		c.Patch(model.RefOf(object), "status", map[string]any{"status": status})
	}
}

// As returns the config of a user who has only the rights of the rules, with the name of the user as the name of the roles.
func (c Cluster) As(user string, rules ...rbacv1.PolicyRule) *rest.Config {
	c.Helper()
	const group = "rbac.authorization.k8s.io"
	meta := metav1.ObjectMeta{Name: user}
	c.CreateTyped(group+"/v1", "ClusterRole", &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules})
	c.CreateTyped(group+"/v1", "ClusterRoleBinding", &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: group, Kind: "ClusterRole", Name: user}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: group, Name: user}},
	})
	rc := rest.CopyConfig(c.REST)
	rc.Impersonate.UserName = user
	return rc
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
