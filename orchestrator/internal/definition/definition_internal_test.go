package definition

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestWithDefinition(t *testing.T) {
	at := func(second int) *metav1.Time {
		if second == 0 {
			return nil
		}
		return &metav1.Time{Time: time.Unix(int64(second), 0)}
	}
	for name, c := range map[string]struct {
		policy, crd int
		want        bool
	}{
		"neither is deleted":                          {0, 0, false},
		"only the policy is deleted":                  {5, 0, false},
		"only the definition is deleted so far":       {0, 5, false},
		"the definition takes the policy with it":     {6, 5, true},
		"both in the same second":                     {5, 5, true},
		"the policy is deleted before the definition": {5, 6, false},
	} {
		t.Run(name, func(t *testing.T) {
			policy, crd := &unstructured.Unstructured{Object: map[string]any{}}, &unstructured.Unstructured{Object: map[string]any{}}
			policy.SetDeletionTimestamp(at(c.policy))
			crd.SetDeletionTimestamp(at(c.crd))
			if got := withDefinition(policy, crd); got != c.want {
				t.Errorf("withDefinition() = %t, want %t", got, c.want)
			}
		})
	}
}
