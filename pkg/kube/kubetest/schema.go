package kubetest

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// The types of the schema.
const (
	nodeType    = "node"
	featureType = "nodeFeature"
)

// schema describes the types to merge: which lists have one owner, and which keys
// identify the items of the others. A field that is missing here is rejected,
// except in "any".
const schema typed.YAMLObject = `types:
- name: node
  map:
    fields:
    - {name: apiVersion, type: {scalar: string}}
    - {name: kind, type: {scalar: string}}
    - {name: metadata, type: {namedType: metadata}}
    - {name: spec, type: {namedType: nodeSpec}}
    - {name: status, type: {namedType: nodeStatus}}
- name: nodeSpec
  map:
    fields:
    - {name: podCIDR, type: {scalar: string}}
    - {name: unschedulable, type: {scalar: boolean}}
    - {name: taints, type: {list: {elementType: {namedType: any}, elementRelationship: atomic}}}
- name: nodeStatus
  map:
    fields:
    - {name: conditions, type: {list: {elementType: {namedType: any}, elementRelationship: associative, keys: [type]}}}
    - {name: images, type: {list: {elementType: {namedType: any}, elementRelationship: atomic}}}
- name: nodeFeature
  map:
    fields:
    - {name: apiVersion, type: {scalar: string}}
    - {name: kind, type: {scalar: string}}
    - {name: metadata, type: {namedType: metadata}}
    - {name: spec, type: {namedType: nodeFeatureSpec}}
- name: nodeFeatureSpec
  map:
    fields:
    - {name: labels, type: {map: {elementType: {scalar: string}}}}
    - {name: features, type: {namedType: any}}
- name: metadata
  map:
    fields:
    - {name: name, type: {scalar: string}}
    - {name: namespace, type: {scalar: string}}
    - {name: uid, type: {scalar: string}}
    - {name: labels, type: {map: {elementType: {scalar: string}}}}
    - {name: annotations, type: {map: {elementType: {scalar: string}}}}
    - {name: ownerReferences, type: {list: {elementType: {namedType: any}, elementRelationship: associative, keys: [uid]}}}
- name: any
  scalar: untyped
  list: {elementType: {namedType: any}, elementRelationship: atomic}
  map: {elementType: {namedType: any}, elementRelationship: separable}
`

// validate rejects an object with an invalid label (Kubernetes documentation,
// "Labels and Selectors": syntax and character set).
func validate(doc map[string]any) error {
	metadata, _ := doc["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	name := regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	domain := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		prefix, word, is := strings.Cut(key, "/")
		if !is {
			prefix, word = "", key
		}
		value := fmt.Sprint(labels[key])
		if is && (!domain.MatchString(prefix) || len(prefix) > 253) || !name.MatchString(word) || value != "" && !name.MatchString(value) {
			return &failure{
				code: http.StatusUnprocessableEntity, name: fmt.Sprint(metadata["name"]), kind: fmt.Sprint(doc["kind"]),
				message: fmt.Sprintf("%v %q is invalid: metadata.labels: Invalid value: %q: %s", doc["kind"], metadata["name"], value, key),
			}
		}
	}
	return nil
}
