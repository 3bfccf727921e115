package pools

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxTerms is the maximum number of terms of a node affinity. The number is the product of the
// numbers of labels of all pools.
const maxTerms = 128

func termsPath() []string {
	return []string{"nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"}
}

// Exclude returns a copy of an affinity that also excludes the nodes of pools. A node does not
// belong to a pool if it lacks one of the pool's labels. A pool with two labels therefore doubles
// the number of terms.
func Exclude(affinity map[string]any, pools []Pool) (map[string]any, error) {
	terms, limited, err := unstructured.NestedSlice(affinity, termsPath()...)
	if err != nil {
		return nil, fmt.Errorf("affinity: %w", err)
	}
	if !limited {
		terms = []any{map[string]any{}}
	}
	for _, p := range pools {
		var product []any
		for _, term := range terms {
			for _, key := range slices.Sorted(maps.Keys(p.NodeSelector)) {
				product = append(product, withExpression(term, map[string]any{"key": key, "operator": "NotIn", "values": []any{p.NodeSelector[key]}}))
			}
		}
		if terms = product; len(terms) > maxTerms {
			return nil, fmt.Errorf("%s: their nodeSelectors have too many labels to tell the other nodes from theirs: use one label for each pool", Key)
		}
	}
	excluded := runtime.DeepCopyJSON(affinity)
	if excluded == nil {
		excluded = map[string]any{}
	}
	if len(pools) == 0 {
		return excluded, nil
	}
	return excluded, unstructured.SetNestedSlice(excluded, terms, termsPath()...)
}

// withExpression returns a copy of a term with one more expression.
func withExpression(term any, expression map[string]any) map[string]any {
	fields, _ := term.(map[string]any)
	copied := runtime.DeepCopyJSON(fields)
	if copied == nil {
		copied = map[string]any{}
	}
	expressions, _ := copied["matchExpressions"].([]any)
	copied["matchExpressions"] = append(expressions, expression)
	return copied
}
