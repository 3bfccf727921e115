// Package pools handles pools: sets of nodes with separate values, for clusters with several GPU
// models, operating systems or container engines. It does no I/O.
//
//	values.pools ─▶ Parse ─▶ Refuse ─▶ render: the stages of the other nodes, then of each pool
//	                                   pass: Overlaps, by the labels that nodes have
package pools

import (
	"errors"
	"fmt"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"outrigger.dev/orchestrator/internal/model"
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
// chart outrigger cannot express. The error names the path of each violation.
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

// Refuse returns an error that names each pair of pools that overlap: every node of one pool also
// belongs to the other pool.
func Refuse(pools []Pool) error {
	var errs []error
	for i, a := range pools {
		for _, b := range pools[i+1:] {
			if a.Matches(b.NodeSelector) || b.Matches(a.NodeSelector) {
				errs = append(errs, fmt.Errorf("%s %s and %s overlap: each node with the labels of one has the labels of the other: "+
					"give both nodeSelectors the same label with different values", Key, a.Name, b.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// Overlaps returns the nodes that several pools select, each with the names of these pools in their
// order. The agents of a pool avoid the nodes of earlier pools, so the node belongs to the first
// one.
func Overlaps(pools []Pool, nodes []*model.Node) map[string][]string {
	overlaps := map[string][]string{}
	if len(pools) < 2 {
		return overlaps
	}
	for _, n := range nodes {
		var names []string
		for _, p := range pools {
			if p.Matches(n.Labels) {
				names = append(names, p.Name)
			}
		}
		if len(names) > 1 {
			overlaps[n.Name] = names
		}
	}
	return overlaps
}
