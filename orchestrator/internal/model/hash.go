package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// hashLength is the number of characters of a hash, so that it fits into a label.
const hashLength = 16

// RefOf returns the reference of an object.
func RefOf(o *unstructured.Unstructured) Ref {
	return Ref{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Inventory returns the references of all objects, in apply order.
func Inventory(stages []Stage) []Ref {
	var refs []Ref
	for _, s := range stages {
		for _, o := range s.Objects {
			refs = append(refs, RefOf(o))
		}
	}
	return refs
}

// Object returns an object with this reference, without content.
func (r Ref) Object() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(r.APIVersion)
	o.SetKind(r.Kind)
	o.SetNamespace(r.Namespace)
	o.SetName(r.Name)
	return o
}

// WithoutVersion returns a reference that is equal for all versions of the kind: its APIVersion has
// only the group.
func (r Ref) WithoutVersion() Ref {
	group, _, hasGroup := strings.Cut(r.APIVersion, "/")
	if !hasGroup {
		group = ""
	}
	r.APIVersion = group
	return r
}

// Hash identifies the content of an object. It is equal for equal objects, and can be the value of
// a label.
func Hash(o *unstructured.Unstructured) string { return HashOf(o.Object) }

// HashOf is Hash for any values with a JSON form.
func HashOf(values ...any) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, v := range values {
		// Maps have sorted keys in JSON. Values from YAML always have a JSON form.
		if err := enc.Encode(v); err != nil {
			panic("hash a value without a JSON form: " + err.Error())
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:hashLength]
}

// String returns the reference for messages: "DaemonSet gpu-operator-resources/device-plugin".
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// RunsPods reports whether objects of this kind have pods.
func (r Ref) RunsPods() bool {
	switch r.Kind {
	case "DaemonSet", "Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob":
		return true
	}
	return false
}

// LabelOneForAll is "true" on a Deployment of an agent that serves all pools, and on the objects
// that the Deployment needs.
const LabelOneForAll = "outrigger.dev/one-for-all-pools"
