// Package pools handles pools: sets of nodes with separate values, for clusters with several GPU
// models, operating systems or container engines. It does no I/O.
//
//	values.pools ─▶ Parse ─▶ render: the stages of the other nodes, then of each pool
//	                       pass: Selecting, by the labels that nodes have
package pools

import (
	"errors"
	"fmt"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Key is the key of the pools in the values.
const Key = "pools"

// Pool is a set of nodes with separate values.
type Pool struct {
	Name string `json:"name"`
	// NodeSelector holds the labels that select the nodes.
	NodeSelector map[string]string `json:"nodeSelector"`
	// Values override the values of the policy.
	Values map[string]any `json:"values"`
}

// Parse returns the pools in values, in their order. It checks the rules that the schema of the
// chart outrigger cannot express. The error names the path of each violation, and each pair of pools that overlap: every
// node of one pool also belongs to the other pool.
func Parse(values map[string]any) ([]Pool, error) {
	var in struct {
		Pools []Pool `json:"pools"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{Key: values[Key]}, &in); err != nil {
		return nil, fmt.Errorf("%s: %w", Key, err)
	}
	var errs []error
	names := map[string]bool{}
	for i, p := range in.Pools {
		at := fmt.Sprintf("%s[%d]", Key, i)
		if names[p.Name] {
			errs = append(errs, fmt.Errorf("%s.name: %s is the name of another pool: choose another one", at, p.Name))
		}
		names[p.Name] = true
		if err := metav1validation.ValidateLabels(p.NodeSelector, field.NewPath(at+".nodeSelector")).ToAggregate(); err != nil {
			errs = append(errs, err)
		}
		if _, nested := p.Values[Key]; nested {
			errs = append(errs, fmt.Errorf("%s.values.%s: a pool has no pools: remove it", at, Key))
		}
		for _, b := range in.Pools[i+1:] {
			if p.Matches(b.NodeSelector) || b.Matches(p.NodeSelector) {
				errs = append(errs, fmt.Errorf("%s %s and %s overlap: each node with the labels of one has the labels of the other: "+
					"give both nodeSelectors the same label with different values", Key, p.Name, b.Name))
			}
		}
	}
	return in.Pools, errors.Join(errs...)
}

// Matches reports whether a node with these labels belongs to the pool.
func (p Pool) Matches(labels map[string]string) bool {
	for key, value := range p.NodeSelector {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// Selecting returns the names of the pools that select a node with these labels, in the order of the pools. The agents of
// a pool avoid the nodes of earlier pools, so the node belongs to the first one.
func Selecting(pools []Pool, labels map[string]string) []string {
	var names []string
	for _, p := range pools {
		if p.Matches(labels) {
			names = append(names, p.Name)
		}
	}
	return names
}

// First returns the name of the first pool that selects a node with these labels, or "".
func First(pools []Pool, labels map[string]string) string {
	return append(Selecting(pools, labels), "")[0]
}
