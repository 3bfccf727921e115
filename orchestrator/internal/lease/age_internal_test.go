package lease

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAgeOfTheStatus(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 10, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		spec map[string]any
		want string
	}{
		"an orchestrator works":        {map[string]any{"holderIdentity": "a", "renewTime": "2026-11-27T12:09:55.123456Z"}, ""},
		"the orchestrator was killed":  {map[string]any{"holderIdentity": "a", "renewTime": "2026-11-27T12:00:00.000000Z"}, "since 2026-11-27 12:00:00Z (10m0s)"},
		"the orchestrator was stopped": {map[string]any{"holderIdentity": "", "renewTime": "2026-11-27T12:09:55.000000Z"}, "since 2026-11-27 12:09:55Z (5s)"},
		"no orchestrator has started":  {map[string]any{}, "No orchestrator works in this cluster, so"},
		"there is no Lease":            {nil, "No orchestrator works in this cluster, so"},
	} {
		t.Run(name, func(t *testing.T) {
			var o *unstructured.Unstructured
			if c.spec != nil {
				o = &unstructured.Unstructured{Object: map[string]any{"spec": c.spec}}
			}
			if got := ageOf(o, now); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("ageOf() = %q, want %q", got, c.want)
			}
		})
	}
}
