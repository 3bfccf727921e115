package publish_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/feature-discovery/internal/publish"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/kube/apitest"
)

// ownerReference is the part of an owner reference that these tests read.
type ownerReference struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller"`
}

// nodeFeature is the part of a NodeFeature that these tests read.
type nodeFeature struct {
	Metadata struct {
		Labels          map[string]string `json:"labels"`
		OwnerReferences []ownerReference  `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Labels   map[string]string         `json:"labels"`
		Features map[string]map[string]any `json:"features"`
	} `json:"spec"`
}

// TestNodeFeature publishes in the NodeFeature of a node, at an API server without Node Feature
// Discovery, and with it.
func TestNodeFeature(t *testing.T) {
	s := apitest.New(t, nil)
	f := publish.NodeFeature{Stamper: stamped(9), Client: apitest.Client(t, s.Config, s.Name, "test-agent"), Namespace: "default"}
	t.Run("without Node Feature Discovery", func(t *testing.T) {
		for verb, err := range map[string]error{"Put": f.Put(t.Context(), one), "Withdraw": f.Withdraw(t.Context())} {
			if err == nil || !strings.HasPrefix(err.Error(), "read NodeFeature default/nvidia-features-for-"+s.Name+": this cluster has no Node Feature Discovery") ||
				!strings.Contains(err.Error(), "install it") {
				t.Errorf("%s() = %v", verb, err)
			}
		}
	})
	const file = `"$COMPONENTS"/nfd/deployment/base/nfd-crds/nfd-api-crds.yaml`
	admin := apitest.New(t, nil).Config
	apitest.Script(t, admin, "kubectl create -f "+file)
	defer apitest.Script(t, admin, "kubectl delete -f "+file)
	agenttest.Poll(t, "NodeFeatures to be served", func() bool { return f.Withdraw(t.Context()) == nil })
	pod := s.Name + "-fd"
	var created struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	s.Do(http.MethodPost, "/api/v1/namespaces/default/pods", map[string]any{
		"metadata": map[string]any{"name": pod, "ownerReferences": []any{
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "notes", "uid": "uid-of-notes"},
			map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "fd", "uid": "uid-of-fd", "controller": true, "blockOwnerDeletion": true},
		}},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "image"}}},
	}, &created)
	ofPod := ownerReference{Kind: "Pod", Name: pod, UID: created.Metadata.UID}
	both := []ownerReference{ofPod, {Kind: "DaemonSet", Name: "fd", UID: "uid-of-fd", Controller: true}}
	path := "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/default/nodefeatures/nvidia-features-for-" + s.Name
	with := func(labels map[string]string, at string) map[string]string {
		labels = maps.Clone(labels)
		labels[publish.Timestamp] = at
		return labels
	}
	for _, step := range []struct {
		name   string
		pod    string
		at     int64
		labels map[string]string
		want   map[string]string
		writes int
		owners []ownerReference
	}{
		{"there is none", pod, 9, one, with(one, "9"), 1, both},
		{"it is right", pod, 10, one, with(one, "9"), 0, both},
		{"it has others", pod, 11, two, with(two, "11"), 1, both},
		{"its labels have to go", pod, 12, map[string]string{}, nil, 1, both},
		{"the pod is not known", "", 13, one, with(one, "13"), 1, nil},
	} {
		t.Run(step.name, func(t *testing.T) {
			f.Stamper, f.Pod = stamped(step.at), step.pod
			before := s.Requests()["patch nodefeatures"]
			assert.NilError(t, f.Put(t.Context(), step.labels))
			if n := s.Requests()["patch nodefeatures"] - before; n != step.writes {
				t.Errorf("%d writes, want %d", n, step.writes)
			}
			var is nodeFeature
			s.Do(http.MethodGet, path, nil, &is)
			var wanted nodeFeature
			wanted.Metadata.Labels = map[string]string{"nfd.node.kubernetes.io/node-name": s.Name}
			wanted.Metadata.OwnerReferences, wanted.Spec.Labels = step.owners, step.want
			wanted.Spec.Features = map[string]map[string]any{"flags": {}, "attributes": {}, "instances": {}}
			if diff := cmp.Diff(wanted, is); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("what is withdrawn goes with its pod", func(t *testing.T) {
		f.Pod = pod
		assert.NilError(t, f.Withdraw(t.Context()))
		var is nodeFeature
		s.Do(http.MethodGet, path, nil, &is)
		if len(is.Spec.Labels) > 0 || !cmp.Equal(is.Metadata.OwnerReferences, []ownerReference{ofPod}) {
			t.Errorf("it has the labels %v and the owners %v, want only the pod", is.Spec.Labels, is.Metadata.OwnerReferences)
		}
	})
	// Without its owners the object would outlive the agent unseen.
	t.Run("a pod that is not there", func(t *testing.T) {
		f.Pod = "none"
		before := s.Requests()["patch nodefeatures"]
		err := f.Put(t.Context(), two)
		assert.Error(t, err, `read the owners of pod default/none: the API server answers 404 Not Found: pods "none" not found`)
		if s.Requests()["patch nodefeatures"] != before {
			t.Error("it was written nevertheless")
		}
	})
	t.Run("no rights", func(t *testing.T) {
		f.Pod = pod
		for _, tc := range []struct{ kind, want string }{{"patch nodefeatures", "apply NodeFeature"}, {"get nodefeatures", "read NodeFeature"}} {
			s.Forbid(tc.kind)
			if err := f.Put(t.Context(), two); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "403") {
				t.Errorf("Put() = %v", err)
			}
		}
	})
}
