package object_test

import (
	"net/http"
	"strings"
	"testing"

	"outrigger.dev/agents/feature-discovery/internal/object"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/kube/apitest"
)

// nodeFeature is the part of a NodeFeature that these tests read.
type nodeFeature struct {
	Metadata struct {
		Labels          map[string]string       `json:"labels"`
		OwnerReferences []object.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Labels   map[string]string         `json:"labels"`
		Features map[string]map[string]any `json:"features"`
	} `json:"spec"`
}

// installNFD makes the API server serve NodeFeatures until the test ends.
func installNFD(t *testing.T, c *object.Client) (remove func()) {
	t.Helper()
	admin := apitest.New(t, nil).Config
	const file = `"$COMPONENTS"/nfd/deployment/base/nfd-crds/nfd-api-crds.yaml`
	apitest.Script(t, admin, "kubectl create -f "+file)
	agenttest.Poll(t, "NodeFeatures to be served", func() bool {
		_, _, err := c.NodeFeatureLabels(t.Context(), "default")
		return err == nil
	})
	return func() { apitest.Script(t, admin, "kubectl delete -f "+file) }
}

func TestNodeFeature(t *testing.T) {
	s := apitest.New(t, nil)
	c := client(t, s)
	withoutNFD(t, s, c)
	defer installNFD(t, c)()
	pod := s.Name + "-fd"
	s.Do(http.MethodPost, "/api/v1/namespaces/default/pods", map[string]any{
		"metadata": map[string]any{"name": pod, "ownerReferences": []any{
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "notes", "uid": "uid-of-notes"},
			map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "fd", "uid": "uid-of-fd", "controller": true, "blockOwnerDeletion": true},
		}},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "image"}}},
	}, &struct{}{})
	before := s.Requests()
	if labels, found, err := c.NodeFeatureLabels(t.Context(), "default"); err != nil || found || labels != nil {
		t.Errorf("labels of none: %v, %t, %v", labels, found, err)
	}
	owners, err := c.PodOwners(t.Context(), "default", pod)
	if err != nil {
		t.Fatal(err)
	}
	uid := owners[0].UID
	want(t, []object.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: pod, UID: uid},
		{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "fd", UID: "uid-of-fd", Controller: true},
	}, owners)
	apply := func(labels map[string]string, owners []object.OwnerReference) {
		t.Helper()
		if err := c.ApplyNodeFeature(t.Context(), "default", labels, owners); err != nil {
			t.Fatal(err)
		}
		var f nodeFeature
		s.Do(http.MethodGet, "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/default/nodefeatures/nvidia-features-for-"+s.Name, nil, &f)
		want(t, map[string]string{"nfd.node.kubernetes.io/node-name": s.Name}, f.Metadata.Labels)
		want(t, map[string]map[string]any{"flags": {}, "attributes": {}, "instances": {}}, f.Spec.Features)
		want(t, labels, f.Spec.Labels)
		want(t, owners, f.Metadata.OwnerReferences)
	}
	apply(map[string]string{"nvidia.com/gpu.count": "8", "nvidia.com/mig.capable": "true"}, owners)
	// The DaemonSet has replaced the pod: its owner is another one.
	owners[0].Name, owners[0].UID = "fd-new", "uid-of-fd-new"
	apply(map[string]string{"nvidia.com/gpu.count": "4"}, owners)
	labels, found, err := c.NodeFeatureLabels(t.Context(), "default")
	if err != nil || !found {
		t.Fatalf("found %t, error %v", found, err)
	}
	want(t, map[string]string{"nvidia.com/gpu.count": "4"}, labels)
	apply(nil, nil)
	after := s.Requests()
	for kind, n := range map[string]int{"get nodefeatures": 2, "patch nodefeatures": 3, "get pods": 1} {
		want(t, n, after[kind]-before[kind])
	}
}

// withoutNFD tests an API server that does not serve NodeFeatures.
func withoutNFD(t *testing.T, s *apitest.API, c *object.Client) {
	t.Helper()
	_, _, err := c.NodeFeatureLabels(t.Context(), "default")
	for verb, err := range map[string]error{"read": err, "apply": c.ApplyNodeFeature(t.Context(), "default", nil, nil)} {
		if err == nil || !strings.HasPrefix(err.Error(), verb+" NodeFeature default/nvidia-features-for-"+s.Name+": this cluster has no Node Feature Discovery") ||
			!strings.Contains(err.Error(), "install it") {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

func TestAPodThatIsNotThere(t *testing.T) {
	_, err := client(t, apitest.New(t, nil)).PodOwners(t.Context(), "gpu", "fd")
	if err == nil || err.Error() != `read the owners of pod gpu/fd: the API server answers 404 Not Found: pods "fd" not found` {
		t.Errorf("error %v", err)
	}
}
