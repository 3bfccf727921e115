package observe

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
)

// seen is the compact form of an object that may belong to the orchestrator.
type seen struct {
	model.Seen
	// fingerprint identifies the applied fields.
	fingerprint uint64
	// daemonSet is the status of a DaemonSet.
	daemonSet model.DaemonSet
}

// newSeen returns the compact form of an object. kind has its API version and kind.
func newSeen(kind model.Ref, o metav1.Object) *seen {
	s := &seen{fingerprint: cluster.Fingerprint(o), Seen: model.Seen{
		Ref: model.Ref{APIVersion: kind.APIVersion, Kind: kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName()},
		UID: o.GetUID(), Ours: cluster.Ours(o), Owner: cluster.Changer(o), Deleting: o.GetDeletionTimestamp() != nil,
	}}
	if ds, ok := o.(*appsv1.DaemonSet); ok {
		s.daemonSet = DaemonSetOf(ds)
	}
	return s
}

// record is an applied object as the API server returned it, its version, and its hash.
type record struct {
	seen
	version string
}

// Applied records the API server's response to the apply of an object with this hash.
func (o *Observer) Applied(object *unstructured.Unstructured, hash string) {
	r := record{seen: *newSeen(model.RefOf(object), object), version: object.GetResourceVersion()}
	r.Applied = hash
	o.applied[r.Ref] = r
}

// addObjects adds the observed objects, and the status of DaemonSets, to a state. For an object whose last apply was not
// observed yet, it adds the API server's response.
func (o *Observer) addObjects(s *model.State) {
	observed := map[model.Ref]string{}
	for scope, t := range o.objects {
		// The rows are at least as new as this version, because it is read first.
		observed[scope] = t.LastStoreSyncResourceVersion()
		for _, row := range t.rows() {
			now := *row.value
			r, applied := o.applied[now.Ref]
			outdated := applied && cluster.Newer(r.version, row.ResourceVersion)
			if outdated {
				now = r.seen
			}
			if applied {
				now.Applied, now.Drifted = r.Applied, now.fingerprint != r.fingerprint
			}
			s.Objects[now.Ref] = now.Seen
			if isDaemonSets(scope) {
				ds := row.value.daemonSet
				// A DaemonSet that was observed before the last apply is not current.
				ds.Current = ds.Current && !outdated
				s.DaemonSets[now.Ref] = &ds
			}
		}
	}
	for ref, r := range o.applied {
		switch _, known := s.Objects[ref]; {
		case known:
		case r.Ours && cluster.Newer(observed[scopeOf(ref)], r.version):
			delete(o.applied, ref) // the object was deleted after the apply
		default:
			s.Objects[ref] = r.Seen
		}
	}
}
