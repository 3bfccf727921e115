package resource_test

import (
	"regexp"
	"testing"

	"outrigger.dev/pkg/resource"
)

// FuzzSplitID holds SplitID against Device.ID: what it takes apart is put
// together again, and what it does not is no replica.
func FuzzSplitID(f *testing.F) {
	for _, id := range []string{
		"", "::", "::0", "GPU-a", "GPU-a::0", "GPU-a::00", "GPU-a::10", "GPU-a::999999999", "GPU-a::1000000000",
		"GPU-a:1", "GPU-a:::1", "GPU-a::+1", "GPU-a::1::2", "17", "GPU-\xff::3",
	} {
		f.Add(id)
	}
	written := regexp.MustCompile(`(?s)^.*::(0|[1-9][0-9]{0,8})$`)
	f.Fuzz(func(t *testing.T, id string) {
		uuid, replica, ok := resource.SplitID(id)
		if ok {
			d := resource.Device{UUID: uuid, Replicas: replica + 2}
			if got := d.ID(replica); got != id {
				t.Errorf("%q is replica %d of %q, whose id is %q", id, replica, uuid, got)
			}
			return
		}
		if string(uuid) != id {
			t.Errorf("%q has no replica, and the UUID %q", id, uuid)
		}
		if written.MatchString(id) {
			t.Errorf("%q has no replica", id)
		}
	})
}
