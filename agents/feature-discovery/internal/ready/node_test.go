package ready_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/feature-discovery/internal/ready"
)

func TestNodeOfTheAPI(t *testing.T) {
	var got ready.Node
	err := json.Unmarshal([]byte(`{
		"metadata": {"name": "n1", "labels": {"a": "b"}},
		"status": {
			"allocatable": {"cpu": "32", "memory": "264116772Ki", "nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "2k"},
			"capacity": {"cpu": "32", "nvidia.com/gpu": "2", "nvidia.com/mig-1g.10gb": "2k"}}}`), &got)
	want := ready.Node{Labels: map[string]string{"a": "b"}, Offered: 2001, Registered: 2002}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
