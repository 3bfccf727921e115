package object_test

import (
	"strings"
	"testing"

	"outrigger.dev/agents/feature-discovery/internal/object"
	"outrigger.dev/pkg/kube/kubetest"
)

func TestNodeFeature(t *testing.T) {
	s := kubetest.New(t, "node1", nil)
	s.InstallNFD()
	s.AddPod("gpu", "fd-x7k2p", "fd")
	c := client(t, s, "node1")
	if labels, found, err := c.NodeFeatureLabels(t.Context(), "gpu"); err != nil || found || labels != nil {
		t.Errorf("labels of none: %v, %t, %v", labels, found, err)
	}
	owners, err := c.PodOwners(t.Context(), "gpu", "fd-x7k2p")
	if err != nil {
		t.Fatal(err)
	}
	want(t, []object.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: "fd-x7k2p", UID: "uid-of-fd-x7k2p"},
		{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "fd", UID: "uid-of-fd", Controller: true},
	}, owners)
	apply := func(labels map[string]string, owners []object.OwnerReference) kubetest.NodeFeature {
		t.Helper()
		if err := c.ApplyNodeFeature(t.Context(), "gpu", labels, owners); err != nil {
			t.Fatal(err)
		}
		f, found := s.NodeFeature("gpu", "nvidia-features-for-node1")
		if !found {
			t.Fatal("there is no NodeFeature")
		}
		want(t, map[string]string{"nfd.node.kubernetes.io/node-name": "node1"}, f.Metadata.Labels)
		want(t, map[string]map[string]any{"flags": {}, "attributes": {}, "instances": {}}, f.Spec.Features)
		want(t, labels, f.Spec.Labels)
		return f
	}
	f := apply(map[string]string{"nvidia.com/gpu.count": "8", "nvidia.com/mig.capable": "true"}, owners)
	if len(f.Metadata.OwnerReferences) != 2 || f.Metadata.OwnerReferences[1].Kind != "DaemonSet" || !f.Metadata.OwnerReferences[1].Controller {
		t.Errorf("owners are %+v", f.Metadata.OwnerReferences)
	}
	// The DaemonSet has replaced the pod: its owner is another one.
	owners[0].Name, owners[0].UID = "fd-new", "uid-of-fd-new"
	f = apply(map[string]string{"nvidia.com/gpu.count": "4"}, owners)
	if refs := f.Metadata.OwnerReferences; len(refs) != 2 || refs[0].Name == "fd-x7k2p" || refs[1].Name == "fd-x7k2p" {
		t.Errorf("owners are %+v", refs)
	}
	labels, found, err := c.NodeFeatureLabels(t.Context(), "gpu")
	if err != nil || !found {
		t.Fatalf("found %t, error %v", found, err)
	}
	want(t, map[string]string{"nvidia.com/gpu.count": "4"}, labels)
	if f = apply(nil, nil); len(f.Metadata.OwnerReferences) != 0 {
		t.Errorf("owners are %+v", f.Metadata.OwnerReferences)
	}
	want(t, map[string]int{"get nodefeatures": 2, "patch nodefeatures": 3, "get pods": 1}, s.Requests())
}

func TestNodeFeatureWithoutNFD(t *testing.T) {
	c := client(t, kubetest.New(t, "node1", nil), "node1")
	_, _, err := c.NodeFeatureLabels(t.Context(), "gpu")
	for verb, err := range map[string]error{"read": err, "apply": c.ApplyNodeFeature(t.Context(), "gpu", nil, nil)} {
		if err == nil || !strings.HasPrefix(err.Error(), verb+" NodeFeature gpu/nvidia-features-for-node1: this cluster has no Node Feature Discovery") ||
			!strings.Contains(err.Error(), "install it") {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

func TestAPodThatIsNotThere(t *testing.T) {
	c := client(t, kubetest.New(t, "node1", nil), "node1")
	_, err := c.PodOwners(t.Context(), "gpu", "fd")
	if err == nil || err.Error() != `read the owners of pod gpu/fd: the API server answers 404 Not Found: pods "fd" not found` {
		t.Errorf("error %v", err)
	}
}
