// Package pools gives sets of nodes values of their own: other models, operating systems or
// container engines in one cluster. It does no I/O.
//
//	values.pools ─▶ Parse ─▶ Refuse ─▶ render: the stages of the other nodes, then of each pool
//	                                   pass: Overlaps, by the labels that nodes have
package pools

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"outrigger.dev/orchestrator/internal/model"
)

// Key is the key of the values under which the pools are.
const Key = "pools"

const (
	// maxPools bounds the list. Each pool has DaemonSets of its own.
	maxPools = 16
	// maxName bounds a name, which is a part of the names of objects and pods.
	maxName = 20
)

// Pool is a set of nodes with values of its own.
type Pool struct {
	Name string
	// NodeSelector has the labels of its nodes.
	NodeSelector map[string]string
	// Values override those of the policy.
	Values map[string]any
}

// Parse returns the pools in values, in their order. It reports all errors, each with its path.
func Parse(values map[string]any) ([]Pool, error) {
	list, err := listOf(values[Key])
	if err != nil {
		return nil, err
	}
	if len(list) > maxPools {
		return nil, fmt.Errorf("%s: there are %d, and at most %d are possible: join those with equal values", Key, len(list), maxPools)
	}
	var pools []Pool
	var errs []error
	names := map[string]bool{}
	for i, entry := range list {
		p, err := parse(entry, fmt.Sprintf("%s[%d]", Key, i))
		if err == nil && names[p.Name] {
			err = fmt.Errorf("%s[%d].name: %s is the name of another pool: choose another one", Key, i, p.Name)
		}
		names[p.Name] = true
		errs = append(errs, err)
		pools = append(pools, p)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return pools, nil
}

func listOf(value any) ([]any, error) {
	if value == nil {
		return nil, nil
	}
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("%s: it has to be a list of pools, each with name, nodeSelector and values", Key)
	}
	return list, nil
}

// parse reads one pool.
func parse(entry any, at string) (Pool, error) {
	fields, ok := entry.(map[string]any)
	if !ok {
		return Pool{}, fmt.Errorf("%s: it has to be a map with name, nodeSelector and values", at)
	}
	var p Pool
	var errs []error
	p.Name, _ = fields["name"].(string)
	if problems := validation.IsDNS1123Label(p.Name); len(problems) > 0 || len(p.Name) > maxName {
		errs = append(errs, fmt.Errorf("%s.name: %q: use 1 to %d lower-case letters, digits and -, as in h100", at, p.Name, maxName))
	}
	var err error
	p.NodeSelector, err = selector(fields["nodeSelector"], at+".nodeSelector")
	errs = append(errs, err)
	if p.Values, ok = fields["values"].(map[string]any); !ok && fields["values"] != nil {
		errs = append(errs, fmt.Errorf("%s.values: it has to be a map with keys of the policy", at))
	}
	if _, nested := p.Values[Key]; nested {
		errs = append(errs, fmt.Errorf("%s.values.%s: a pool has no pools: remove it", at, Key))
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains([]string{"name", "nodeSelector", "values"}, key) {
			errs = append(errs, fmt.Errorf("%s.%s: unknown key: use name, nodeSelector and values", at, key))
		}
	}
	return p, errors.Join(errs...)
}

func selector(value any, at string) (map[string]string, error) {
	entries, _ := value.(map[string]any)
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s: it has no label: name those that only the nodes of the pool have, such as {nvidia.com/gpu.product: NVIDIA-L4}", at)
	}
	labels := map[string]string{}
	for key, v := range entries {
		text, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%s.%s: %v is no text: put it into quotes", at, key, v)
		}
		labels[key] = text
	}
	if err := metav1validation.ValidateLabels(labels, field.NewPath(at)).ToAggregate(); err != nil {
		return nil, err
	}
	return labels, nil
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

// Refuse returns an error that names each two pools that no node can tell apart: each node of one
// belongs to the other.
func Refuse(pools []Pool) error {
	var errs []error
	for i, a := range pools {
		for _, b := range pools[i+1:] {
			if a.Matches(b.NodeSelector) || b.Matches(a.NodeSelector) {
				errs = append(errs, fmt.Errorf("%s %s and %s overlap: each node that has the labels of one has those of the other: "+
					"give both nodeSelectors the same label with different values", Key, a.Name, b.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// Overlaps returns the names of the nodes that several pools select, each with the names of these
// pools in their order: the agents of a pool avoid the nodes of those before it, so that the node
// is in the first one.
func Overlaps(pools []Pool, nodes []model.Node) map[string][]string {
	overlaps := map[string][]string{}
	for i := range nodes {
		var names []string
		for _, p := range pools {
			if p.Matches(nodes[i].Labels) {
				names = append(names, p.Name)
			}
		}
		if len(names) > 1 {
			overlaps[nodes[i].Name] = names
		}
	}
	return overlaps
}
