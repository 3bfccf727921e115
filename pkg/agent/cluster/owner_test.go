package cluster_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/labels"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/kube"
)

const daemonSetPath = "/apis/apps/v1/namespaces/gpus/daemonsets/mine"

// answer is how an API server answers a request.
type answer struct {
	status int
	text   string
}

// apiServer answers each request for the DaemonSet gpus/mine, and lists the Node n, which has these
// labels, if it is there. It understands label selectors as the API server does, by its library.
func apiServer(t *testing.T, set answer, node labels.Set) *cluster.API {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == daemonSetPath:
			w.WriteHeader(set.status)
			_, _ = w.Write([]byte(set.text))
		case r.URL.Path == "/api/v1/nodes" && r.URL.Query().Get("fieldSelector") == "metadata.name=n":
			listNode(t, w, r, node)
		default:
			t.Errorf("it asks for %s", r.URL)
		}
	}))
	t.Cleanup(s.Close)
	client, err := kube.New(kube.Config{Server: s.URL, Dir: agenttest.Account(t, s), Node: "n", Agent: "test-agent", Log: slog.New(slog.DiscardHandler)})
	assert.NilError(t, err)
	return &cluster.API{Client: client}
}

func listNode(t *testing.T, w http.ResponseWriter, r *http.Request, node labels.Set) {
	t.Helper()
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		t.Errorf("the label selector is not one: %v", err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	items := []any{}
	if node != nil && selector.Matches(node) {
		items = append(items, map[string]any{"metadata": map[string]any{"name": "n"}})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"items": items})
}

// ownerOf returns the owner of an agent with flags for the DaemonSet gpus/NAME.
func ownerOf(t *testing.T, api *cluster.API, name string) *cluster.Owner {
	t.Helper()
	s := cluster.Settings{Namespace: "gpus", DaemonSet: name}
	return s.Owner(api, slog.New(slog.DiscardHandler))
}

// gone asks once, with Left or without.
func gone(t *testing.T, api *cluster.API, name string, left bool) bool {
	t.Helper()
	owner := ownerOf(t, api, name)
	owner.Left = left
	return owner.Gone(t.Context())
}

func TestAnOwnerIsGoneIfItIsDeleted(t *testing.T) {
	const missing = `{"kind": "Status", "code": 404}`
	for name, tc := range map[string]struct {
		set  answer
		name string
		want bool
	}{
		"it is there":             {answer{http.StatusOK, `{"metadata": {"name": "mine"}}`}, "mine", false},
		"it is being deleted":     {answer{http.StatusOK, `{"metadata": {"deletionTimestamp": "2026-11-22T12:00:00Z"}}`}, "mine", true},
		"it is gone":              {answer{http.StatusNotFound, missing}, "mine", true},
		"the rights are gone":     {answer{http.StatusForbidden, `{"kind": "Status", "code": 403}`}, "mine", false},
		"the API server fails":    {answer{http.StatusInternalServerError, ""}, "mine", false},
		"its name is not known":   {answer{http.StatusNotFound, missing}, "", false},
		"there is no API server ": {answer{}, "mine", false},
	} {
		t.Run(name, func(t *testing.T) {
			var api *cluster.API
			if tc.set.status != 0 {
				api = apiServer(t, tc.set, labels.Set{})
			}
			for _, left := range []bool{false, true} {
				if got := gone(t, api, tc.name, left); got != tc.want {
					t.Errorf("with Left %t, it is gone: %t, want %t", left, got, tc.want)
				}
			}
		})
	}
}

func TestAnOwnerIsGoneIfItDoesNotSelectTheNodeAnyMore(t *testing.T) {
	node := labels.Set{"pool": "gpu", "gpus": "8", "empty": "", "cordoned": "true"}
	in := func(key, operator, values string) string {
		return `{"matchExpressions": [{"key": "` + key + `", "operator": "` + operator + `", "values": [` + values + `]}]}`
	}
	required := func(terms string) string {
		return `"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [` + terms + `]}}}`
	}
	for name, tc := range map[string]struct {
		// pod is the spec of the DaemonSet's pods.
		pod  string
		node labels.Set
		want bool
	}{
		// What an update, a drain, a restart of the kubelet and an eviction leave as it was.
		"it selects all nodes":               {``, node, false},
		"it selects the node by a label":     {`"nodeSelector": {"pool": "gpu"}`, node, false},
		"the label is empty":                 {`"nodeSelector": {"empty": ""}`, node, false},
		"the label has another value":        {`"nodeSelector": {"pool": "cpu"}`, node, true},
		"one of two labels is missing":       {`"nodeSelector": {"pool": "gpu", "zone": "a"}`, node, true},
		"it prefers other nodes":             {`"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}`, node, false},
		"one of two terms matches":           {required(in("pool", "In", `"cpu"`) + "," + in("pool", "In", `"a", "gpu"`)), node, false},
		"no term matches":                    {required(in("pool", "In", `"cpu"`) + "," + in("zone", "Exists", ``)), node, true},
		"a term and not the nodeSelector":    {`"nodeSelector": {"pool": "cpu"}, ` + required(in("pool", "Exists", ``)), node, true},
		"the nodeSelector and not a term":    {`"nodeSelector": {"pool": "gpu"}, ` + required(in("pool", "DoesNotExist", ``)), node, true},
		"both match":                         {`"nodeSelector": {"pool": "gpu"}, ` + required(in("zone", "DoesNotExist", ``)), node, false},
		"a label that is missing is not in":  {required(in("zone", "NotIn", `"a"`)), node, false},
		"a label with the value is not in":   {required(in("pool", "NotIn", `"gpu"`)), node, true},
		"an empty value is in":               {required(in("empty", "In", `""`)), node, false},
		"a number is greater":                {required(in("gpus", "Gt", `"4"`)), node, false},
		"a number is not less":               {required(in("gpus", "Lt", `"8"`)), node, true},
		"no text is a number":                {required(in("pool", "Gt", `"4"`)), node, true},
		"a term without expressions":         {required(`{}`), node, true},
		"a term of fields":                   {required(`{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}`), node, false},
		"an operator of a later version":     {required(in("pool", "Like", `"c*"`)), node, false},
		"the Node is gone, with its labels":  {`"nodeSelector": {"pool": "gpu"}`, nil, false},
		"the Node has lost all of its label": {`"nodeSelector": {"pool": "gpu"}`, labels.Set{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			api := apiServer(t, answer{http.StatusOK, `{"spec": {"template": {"spec": {` + tc.pod + `}}}}`}, tc.node)
			if got := gone(t, api, "mine", true); got != tc.want {
				t.Errorf("it is gone: %t, want %t", got, tc.want)
			}
			if gone(t, api, "mine", false) {
				t.Error("it is gone without Left")
			}
		})
	}
}
