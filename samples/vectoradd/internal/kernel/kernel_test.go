package kernel_test

import (
	"math"
	"strings"
	"testing"

	"outrigger.dev/samples/vectoradd/internal/kernel"
)

func TestVerify(t *testing.T) {
	a, b := []float32{0.5, 0.25, 0}, []float32{0.5, 0.5, 0}
	nan := float32(math.NaN())
	tests := map[string]struct {
		sum  []float32
		want string
	}{
		"right sums pass":                 {[]float32{1, 0.75, 0}, ""},
		"a rounding error passes":         {[]float32{1.000001, 0.75, 0}, ""},
		"the first element is checked":    {[]float32{1.1, 0.75, 0}, "element 0 is 1.1, want 1"},
		"the last element is checked":     {[]float32{1, 0.75, 2e-5}, "element 2"},
		"NaN":                             {[]float32{1, nan, 0}, "element 1 is NaN"},
		"infinity":                        {[]float32{float32(math.Inf(1)), 0.75, 0}, "element 0"},
		"an element that was not written": {kernel.Unset(3), "element 0 is NaN"},
		"a sum that is too short fails":   {[]float32{1, 0.75}, "3 + 3 elements gave 2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := kernel.Verify(a, b, tc.sum)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("got %v, want nil", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestBlocksCoverEveryElementOnce(t *testing.T) {
	for n, want := range map[int]int{1: 1, 255: 1, 256: 1, 257: 2, 50_000: 196} {
		if got := kernel.Blocks(n); got != want {
			t.Errorf("Blocks(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestVectorDependsOnlyOnTheSeed(t *testing.T) {
	a, again, b := kernel.Vector(100, 1), kernel.Vector(100, 1), kernel.Vector(100, 2)
	same := 0
	for i := range a {
		if a[i] != again[i] || a[i] < 0 || a[i] >= 1 {
			t.Fatalf("element %d: %g and %g", i, a[i], again[i])
		}
		if a[i] == b[i] {
			same++
		}
	}
	if same > 5 {
		t.Errorf("%d of 100 elements are the same for two seeds", same)
	}
}
