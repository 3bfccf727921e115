package apitest

import (
	"maps"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// API is the shared API server for the agent of a Node, which connects through a Proxy. The
// requests of the test itself do not pass the Proxy.
type API struct {
	*Proxy
	// Config is the client configuration for the Proxy.
	Config *rest.Config
	// Name is the name of the Node. No other test uses it.
	Name string

	t      testing.TB
	client *http.Client
	url    string
}

// Node is the part of a Node that tests read and change.
type Node struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              `json:"spec"`
	Status            `json:"status"`
}

// Spec is the spec of a Node.
type Spec struct {
	Unschedulable bool    `json:"unschedulable,omitempty"`
	Taints        []Taint `json:"taints,omitempty"`
}

// Status is the status of a Node.
type Status struct {
	Conditions []Condition `json:"conditions,omitempty"`
}

// Taint is one of a Node's taints.
type Taint struct {
	Key       string `json:"key"`
	Value     string `json:"value,omitempty"`
	Effect    string `json:"effect"`
	TimeAdded string `json:"timeAdded,omitempty"`
}

// Condition is one of a Node's conditions.
type Condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
	LastHeartbeatTime  string `json:"lastHeartbeatTime,omitempty"`
}

// New creates a Node that is deleted with the test. The Node has the labels, and a condition Ready
// that is true, from the manager kubelet. New skips the test under the same condition as Start.
func New(t testing.TB, labels map[string]string) *API {
	t.Helper()
	requireProgram(t)
	s := shared()
	if s.err != nil {
		t.Fatal(s.err)
	}
	a := &API{t: t, client: connect(s.rc), url: s.rc.Host, Config: rest.CopyConfig(s.rc)}
	a.Proxy = newProxy(t, s.rc.Host, a.client.Transport)
	a.Config.Host = a.http.URL
	t.Cleanup(a.client.CloseIdleConnections)
	n := Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-", Labels: labels}}
	a.Do(http.MethodPost, "/api/v1/nodes?fieldManager=kubelet", n, &n)
	a.Name = n.Name
	t.Cleanup(a.Delete)
	a.UpdateStatus("kubelet", func(n *Node) {
		n.Conditions = []Condition{{Type: "Ready", Status: "True", Reason: "KubeletReady", LastTransitionTime: "2026-01-02T03:04:05Z"}}
	})
	return a
}

// Do sends a request past the Proxy, and decodes the answer into to. An error fails the test,
// except for a conflict of an update, and the deletion of an object that does not exist.
func (a *API) Do(method, path string, body, to any) (code int) {
	a.t.Helper()
	code, text := send(a.t, a.client, method, a.url+path, body)
	ends := map[string]int{http.MethodPut: http.StatusConflict, http.MethodDelete: http.StatusNotFound}[method]
	if code >= http.StatusBadRequest && code != ends {
		a.t.Fatalf("%s %s: %d %s", method, path, code, text)
	}
	decode(a.t, text, to)
	return code
}

func (a *API) path() string { return "/api/v1/nodes/" + a.Name }

// Node returns the Node.
func (a *API) Node() (n Node) {
	a.t.Helper()
	a.Do(http.MethodGet, a.path(), nil, &n)
	return n
}

// Update changes the metadata and the spec of the Node as another field manager, which then owns
// the changed fields.
func (a *API) Update(manager string, change func(*Node)) {
	a.update(a.path()+"?fieldManager="+manager, change)
}

// UpdateStatus is Update for the status.
func (a *API) UpdateStatus(manager string, change func(*Node)) {
	a.update(a.path()+"/status?fieldManager="+manager, change)
}

func (a *API) update(path string, change func(*Node)) {
	a.t.Helper()
	for code := http.StatusConflict; code == http.StatusConflict; {
		n := a.Node()
		change(&n)
		code = a.Do(http.MethodPut, path, n, &n)
	}
}

// SetLabels replaces the labels of the Node, as the manager kubectl.
func (a *API) SetLabels(labels map[string]string) {
	a.Update("kubectl", func(n *Node) { n.Labels = maps.Clone(labels) })
}

// Delete deletes the Node.
func (a *API) Delete() { a.Do(http.MethodDelete, a.path(), nil, &struct{}{}) }
