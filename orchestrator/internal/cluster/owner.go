package cluster

import (
	"fmt"
	"hash/fnv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"outrigger.dev/orchestrator/internal/model"
)

// Ours reports whether the orchestrator has applied the object, even if other managers changed its
// fields since.
func Ours(o metav1.Object) bool { return ownFields(o) != nil }

// ownFields returns the entry of the orchestrator in metadata.managedFields, or nil.
func ownFields(o metav1.Object) *metav1.FieldsV1 {
	for _, entry := range o.GetManagedFields() {
		if entry.Manager == model.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" {
			return entry.FieldsV1
		}
	}
	return nil
}

// Fingerprint identifies the fields that the orchestrator has applied. The API server removes a
// field from this set when another manager changes or removes the field. A changed fingerprint
// therefore means drift, for objects of all kinds. 0 means that the orchestrator has not applied
// the object.
func Fingerprint(o metav1.Object) uint64 {
	fields := ownFields(o)
	if fields == nil {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write(fields.GetRawBytes())
	return h.Sum64() | 1
}

// Newer reports whether the resourceVersion a is newer than b. It returns false if one of them is empty.
func Newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// Owner returns the manager of an object: "Helm release gpu/nvidia", or a field manager such as
// "kubectl-client-side-apply".
func Owner(o metav1.Object) string {
	if release := o.GetAnnotations()["meta.helm.sh/release-name"]; release != "" {
		return fmt.Sprintf("Helm release %s/%s", o.GetAnnotations()["meta.helm.sh/release-namespace"], release)
	}
	for _, entry := range o.GetManagedFields() {
		if entry.Subresource == "" && entry.Manager != model.FieldManager {
			return entry.Manager
		}
	}
	return "an unknown program"
}

// Changer returns the field manager that changed an object last, the orchestrator excluded, or "".
func Changer(o metav1.Object) string {
	var last metav1.ManagedFieldsEntry
	for _, entry := range o.GetManagedFields() {
		if entry.Subresource == "" && entry.Manager != model.FieldManager && (last.Manager == "" || !entry.Time.Before(last.Time)) {
			last = entry
		}
	}
	return last.Manager
}

// ForeignError says that an object exists and that another program manages it.
type ForeignError struct {
	Ref   model.Ref
	Owner string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s exists and is managed by %s: it is not changed; remove it, or take it over with apply --adopt (for a ClusterPolicy: annotation outrigger.dev/adopt=true)", e.Ref, e.Owner)
}
