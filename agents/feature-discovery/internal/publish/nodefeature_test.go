package publish_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/feature-discovery/internal/object"
	"outrigger.dev/agents/feature-discovery/internal/publish"
)

// features is the NodeFeature of the node at an API server.
type features struct {
	// labels are those of the object, nil for none.
	labels map[string]string
	owners []object.OwnerReference
	writes int
	// read, ofPod and write are what these requests fail with.
	read, ofPod, write error
}

// owners are those of the pod's object: the pod, and its DaemonSet.
var owners = []object.OwnerReference{
	{APIVersion: "v1", Kind: "Pod", Name: "feature-discovery-x7k2p", UID: "p"},
	{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "feature-discovery", UID: "u"},
}

func (f *features) NodeFeatureLabels(_ context.Context, namespace string) (map[string]string, bool, error) {
	if namespace != "gpu" {
		return nil, false, errors.New("no such namespace")
	}
	return f.labels, f.labels != nil, f.read
}

func (f *features) PodOwners(_ context.Context, namespace, pod string) ([]object.OwnerReference, error) {
	if namespace != "gpu" || pod != "feature-discovery-x7k2p" {
		return nil, errors.New("no such pod")
	}
	return owners, f.ofPod
}

func (f *features) ApplyNodeFeature(_ context.Context, _ string, labels map[string]string, owners []object.OwnerReference) error {
	f.writes++
	if f.write == nil {
		f.labels, f.owners = labels, owners
	}
	return f.write
}

func TestTheNodeFeatureIsWrittenOnlyWhenItDiffers(t *testing.T) {
	api := &features{}
	put := func(now int64, labels map[string]string) {
		t.Helper()
		f := publish.NodeFeature{Stamper: publish.Stamper{Now: clock(now)}, API: api, Namespace: "gpu", Pod: "feature-discovery-x7k2p"}
		if err := f.Put(t.Context(), labels); err != nil {
			t.Fatal(err)
		}
	}
	for name, step := range map[string]struct {
		there, labels, want map[string]string
		writes              int
	}{
		"there is none":                    {nil, one, map[string]string{"a": "1", publish.Timestamp: "9"}, 1},
		"there is none, and nothing to be": {nil, map[string]string{}, map[string]string{}, 1},
		"it is right":                      {map[string]string{"a": "1", publish.Timestamp: "3"}, one, map[string]string{"a": "1", publish.Timestamp: "3"}, 0},
		"it has others":                    {map[string]string{"b": "2", publish.Timestamp: "3"}, one, map[string]string{"a": "1", publish.Timestamp: "9"}, 1},
		"its labels have to go":            {map[string]string{"a": "1", publish.Timestamp: "3"}, map[string]string{}, map[string]string{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			*api = features{labels: step.there}
			put(9, step.labels)
			if diff := cmp.Diff(step.want, api.labels); diff != "" || api.writes != step.writes {
				t.Errorf("%d writes, want %d; labels (-want +got):\n%s", api.writes, step.writes, diff)
			}
			if step.writes > 0 && !cmp.Equal(api.owners, owners) {
				t.Errorf("owners %v, want %v", api.owners, owners)
			}
		})
	}
}

func TestANodeFeatureWithoutAPodHasNoOwner(t *testing.T) {
	api := &features{}
	if err := (publish.NodeFeature{API: api, Namespace: "gpu"}).Put(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if !cmp.Equal(api.labels, one) || api.owners != nil {
		t.Errorf("labels %v and owners %v, want %v and none", api.labels, api.owners, one)
	}
}

func TestANodeFeatureThatIsWithdrawnGoesWithItsPod(t *testing.T) {
	api := &features{labels: one, owners: owners}
	f := publish.NodeFeature{API: api, Namespace: "gpu", Pod: "feature-discovery-x7k2p"}
	if err := f.Withdraw(t.Context()); err != nil || len(api.labels) > 0 || !cmp.Equal(api.owners, owners[:1]) {
		t.Errorf("Withdraw() = %v with the labels %v and the owners %v, want only the pod", err, api.labels, api.owners)
	}
	*api = features{}
	if err := f.Withdraw(t.Context()); err != nil || api.writes > 0 {
		t.Errorf("without a NodeFeature, Withdraw() = %v with %d writes", err, api.writes)
	}
	*api = features{labels: one, owners: owners}
	f.Pod = ""
	if err := f.Withdraw(t.Context()); err != nil || len(api.labels) > 0 || api.owners != nil {
		t.Errorf("without a pod, Withdraw() = %v with the labels %v and the owners %v", err, api.labels, api.owners)
	}
}

// Without its owners the object would outlive the agent unseen.
func TestANodeFeatureThatFailsIsLeftAlone(t *testing.T) {
	rejected := errors.New("403")
	for name, api := range map[string]*features{
		"it cannot be read":    {read: rejected},
		"the pod has no owner": {ofPod: rejected},
		"it cannot be written": {write: rejected},
	} {
		t.Run(name, func(t *testing.T) {
			f := publish.NodeFeature{API: api, Namespace: "gpu", Pod: "feature-discovery-x7k2p"}
			if err := f.Put(t.Context(), one); !errors.Is(err, rejected) || api.labels != nil {
				t.Errorf("Put() = %v with labels %v, want %v", err, api.labels, rejected)
			}
		})
	}
}
