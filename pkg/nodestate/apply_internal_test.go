package nodestate

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"outrigger.dev/pkg/kube/apitest"
)

func TestApplyLabels(t *testing.T) {
	s := apitest.New(t, map[string]string{"zone": "a", "shared": "1", "taken": "old"})
	c := client(t, s)
	nodes, _ := watched(t, s)
	next(t, nodes)
	apply := func(labels map[string]string) {
		t.Helper()
		if _, err := c.applyMetadata(t.Context(), labels, nil); err != nil {
			t.Fatal(err)
		}
	}
	apply(map[string]string{"gpu": "8", "gone": "soon", "shared": "1", "taken": "new"})
	n := next(t, nodes)
	want(t, map[string]string{"zone": "a", "gpu": "8", "gone": "soon", "shared": "1", "taken": "new"}, n.Labels)
	want(t, map[string][]string{
		"zone": {"kubelet"}, "gpu": {"test-agent"}, "gone": {"test-agent"}, "shared": {"kubelet", "test-agent"}, "taken": {"test-agent"},
	}, labelOwners(n))

	apply(map[string]string{"gpu": "4", "shared": "1"})
	want(t, map[string]string{"zone": "a", "gpu": "4", "shared": "1"}, next(t, nodes).Labels)

	apply(map[string]string{"gpu": "4", "shared": "1"}) // no change: no event
	s.Update("kubectl", func(n *apitest.Node) { n.Labels["gpu"] = "mine" })
	want(t, []string{"kubectl"}, labelOwners(next(t, nodes))["gpu"])
	apply(nil)
	n = next(t, nodes)
	want(t, map[string]string{"zone": "a", "gpu": "mine", "shared": "1"}, n.Labels)
	want(t, map[string][]string{"zone": {"kubelet"}, "gpu": {"kubectl"}, "shared": {"kubelet"}}, labelOwners(n))
}

func TestTheOwnersOfALabelAreEachNamedOnce(t *testing.T) {
	s := apitest.New(t, nil)
	nodes, _ := watched(t, s)
	next(t, nodes)
	s.Update("test-agent", func(n *apitest.Node) { n.Labels = map[string]string{"a": "1"} })
	next(t, nodes)
	// It owns the label as one that updates and as one that applies.
	if _, err := client(t, s).applyMetadata(t.Context(), map[string]string{"a": "1", "b": "1"}, nil); err != nil {
		t.Fatal(err)
	}
	want(t, map[string][]string{"a": {"test-agent"}, "b": {"test-agent"}}, labelOwners(next(t, nodes)))
}

func TestApplyCondition(t *testing.T) {
	s := apitest.New(t, nil)
	c := client(t, s)
	nodes, _ := watched(t, s)
	want(t, []Condition{ready}, next(t, nodes).Conditions)
	at := time.Date(2026, 5, 6, 9, 8, 9, 999, time.FixedZone("", 7200))
	gpu := Condition{Type: "GPUReady", Status: "False", Reason: "DriverNotReady", Message: "no driver", LastTransition: at}
	apply := func() {
		t.Helper()
		if _, err := c.applyCondition(t.Context(), &gpu); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.applyMetadata(t.Context(), map[string]string{"a": "1"}, nil); err != nil {
		t.Fatal(err)
	}
	next(t, nodes)
	apply()
	n := next(t, nodes)
	gpu.LastTransition = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	want(t, []Condition{ready, gpu}, n.Conditions)
	want(t, map[string]string{"a": "1"}, n.Labels) // what is applied apart stays
	want(t, apitest.Condition{
		Type: "GPUReady", Status: "False", Reason: "DriverNotReady", Message: "no driver",
		LastTransitionTime: "2026-05-06T07:08:09Z", LastHeartbeatTime: "2026-05-06T07:08:09Z",
	}, s.Node().Conditions[1])
	apply() // no change: no event
	gpu.Status, gpu.Reason, gpu.Message = "True", "", ""
	apply()
	want(t, []Condition{ready, gpu}, next(t, nodes).Conditions)

	want(t, map[string]int{"list nodes": 1, "watch nodes": 1, "patch nodes": 1, "patch nodes/status": 3}, s.Requests())
}

func TestRemoveCondition(t *testing.T) {
	s := apitest.New(t, map[string]string{"zone": "a"})
	c := client(t, s)
	nodes, _ := watched(t, s)
	next(t, nodes)
	gpu := Condition{Type: "GPUReady", Status: "True", LastTransition: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)}
	if _, err := c.applyCondition(t.Context(), &gpu); err != nil {
		t.Fatal(err)
	}
	want(t, []Condition{ready, gpu}, next(t, nodes).Conditions)
	if _, err := c.applyCondition(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	n := next(t, nodes)
	want(t, []Condition{ready}, n.Conditions)
	want(t, map[string]string{"zone": "a"}, n.Labels)
}

func TestWhatIsWrittenAndFails(t *testing.T) {
	cond := Condition{Type: "GPUReady", Status: "True", LastTransition: time.Now()}
	taint := Taint{Key: "not-ready", Effect: "NoSchedule"}
	for name, tc := range map[string]struct {
		// other is what distinguishes the Node from the one that is there.
		other string
		given func(*apitest.API)
		do    func(server) error
		want  string
	}{
		"a condition of a node that is not there": {
			other: "-other",
			do:    func(c server) error { return second(c.applyCondition(t.Context(), &cond)) },
			want:  `apply condition GPUReady to node NODE-other: the API server answers 404 Not Found: nodes "NODE-other" not found`,
		},
		"a label that none may have": {
			do: func(c server) error {
				return second(c.applyMetadata(t.Context(), map[string]string{"good": "1", "nvidia.com/gpu.product": "To Be Filled."}, nil))
			},
			want: `apply labels to node NODE: the API server answers 422 Unprocessable Entity: Node "NODE" is invalid: ` +
				`metadata.labels: Invalid value: "To Be Filled.": a valid label must be`,
		},
		"no right to the status": {
			given: func(s *apitest.API) { s.Forbid("patch nodes/status") },
			do:    func(c server) error { return second(c.applyCondition(t.Context(), &cond)) },
			want: "apply condition GPUReady to node NODE: the API server answers 403 Forbidden: nodes/status is forbidden: " +
				`User "system:serviceaccount:gpu:agent" cannot patch resource "nodes/status" in API group "" at the cluster scope ` +
				"(the pod's service account has no role with this verb: does the installed chart have the version of this program?)",
		},
		"an admission policy": {
			given: func(s *apitest.API) {
				s.Answer("patch nodes", http.StatusForbidden, "ValidatingAdmissionPolicy 'own-keys' denied request: not yours")
			},
			do: func(c server) error { return second(c.applyMetadata(t.Context(), map[string]string{"a": "b"}, nil)) },
			want: "apply labels to node NODE: the API server answers 403 Forbidden: " +
				"ValidatingAdmissionPolicy 'own-keys' denied request: not yours",
		},
		"an API server that is not ready": {
			given: func(s *apitest.API) { s.Unavailable(1) },
			do:    func(c server) error { return second(c.applyMetadata(t.Context(), nil, nil)) },
			want:  "apply labels to node NODE: the API server answers 503 Service Unavailable: not now",
		},
		"one that asks for patience": {
			given: func(s *apitest.API) { s.Answer("patch nodes", http.StatusTooManyRequests, "later") },
			do:    func(c server) error { return second(c.applyMetadata(t.Context(), nil, nil)) },
			want:  "apply labels to node NODE: the API server answers 429 Too Many Requests: later",
		},
		"no right to the taints": {
			given: func(s *apitest.API) { s.Forbid("get nodes") },
			do:    func(c server) error { return second(c.removeTaint(t.Context(), taint)) },
			want: "remove taint not-ready:NoSchedule from node NODE: the API server answers 403 Forbidden: nodes is forbidden: " +
				`User "system:serviceaccount:gpu:agent" cannot get resource "nodes" in API group "" at the cluster scope ` +
				"(the pod's service account has no role with this verb: does the installed chart have the version of this program?)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := apitest.New(t, map[string]string{"zone": "a"})
			before := s.Node()
			if tc.given != nil {
				tc.given(s)
			}
			err := tc.do(server{apitest.Client(t, s.Config, s.Name+tc.other, "test-agent")})
			if message := strings.ReplaceAll(tc.want, "NODE", s.Name); err == nil || !strings.HasPrefix(err.Error(), message) {
				t.Errorf("got  %v\nwant %s", err, message)
			}
			want(t, before, s.Node())
		})
	}
}
