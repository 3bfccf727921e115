package profile_test

import (
	"testing"

	"outrigger.dev/pkg/gpu/nvml/profile"
)

func TestAttribute(t *testing.T) {
	for n, want := range []string{0: "", 7: "+me", 8: "+me", 9: "", 10: "+gfx", 11: "+gfx", 12: "+gfx", 13: "-me", 14: "-me", 15: "+me.all", 16: "+me.all", 17: "+gfx", 99: ""} {
		if got := profile.Attribute(n); got != want {
			t.Errorf("Attribute(%d) = %q, want %q", n, got, want)
		}
	}
}
