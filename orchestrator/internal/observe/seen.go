package observe

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
)

// seen is the compact form of an object that may belong to the orchestrator.
type seen struct {
	model.Seen
	// version is the resourceVersion, and fingerprint identifies the applied fields.
	version, fingerprint uint64
	// daemonSet is the status of a DaemonSet.
	daemonSet model.DaemonSet
}

func newSeen(p scope, o metav1.Object) seen {
	s := seen{version: cluster.Version(o), fingerprint: cluster.Fingerprint(o), Seen: model.Seen{
		Ref: model.Ref{
			APIVersion: p.kind.GroupVersion().String(), Kind: p.kind.Kind,
			Namespace: strings.Clone(o.GetNamespace()), Name: strings.Clone(o.GetName()),
		},
		UID: o.GetUID(), Ours: cluster.Ours(o), Owner: strings.Clone(cluster.Changer(o)), Deleting: o.GetDeletionTimestamp() != nil,
	}}
	if ds, ok := o.(*appsv1.DaemonSet); ok {
		s.daemonSet = newDaemonSet(ds)
	}
	return s
}

func sameSeen(a, b seen) bool {
	return a.Seen == b.Seen && a.fingerprint == b.fingerprint && a.daemonSet == b.daemonSet
}

// record is an applied object as the API server returned it, and its hash.
type record struct {
	seen
	hash string
}

// Applied records the API server's response to the apply of an object with this hash.
func (o *Observer) Applied(object *unstructured.Unstructured, hash string) {
	r := record{hash: hash, seen: newSeen(scope{kind: object.GroupVersionKind()}, object)}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.applied[r.Ref] = r
}

// forget drops the record of a deleted object, unless the object was applied again since. The
// caller holds mu.
func (o *Observer) forget(s seen, at string) {
	gone := cluster.Version(&metav1.ObjectMeta{ResourceVersion: at})
	if r, ok := o.applied[s.Ref]; ok && r.version <= gone {
		delete(o.applied, s.Ref)
	}
}

// seen returns all observed objects. For an object whose last apply was not observed yet, it
// returns the API server's response. The caller holds mu.
func (o *Observer) seen() map[model.Ref]model.Seen {
	all := map[model.Ref]model.Seen{}
	for _, t := range o.objects {
		for _, row := range t.rows {
			s := *row
			if r, ok := o.applied[s.Ref]; ok {
				if s.version < r.version {
					s = r.seen
				}
				s.Applied, s.Drifted = r.hash, s.fingerprint != r.fingerprint
			}
			all[s.Ref] = s.Seen
		}
	}
	for ref, r := range o.applied {
		if _, ok := all[ref]; !ok {
			r.Applied = r.hash
			all[ref] = r.seen.Seen
		}
	}
	return all
}
