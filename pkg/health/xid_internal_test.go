package health

import "testing"

// The classes are those of NVIDIA's catalogue.
func TestClassOf(t *testing.T) {
	for want, xids := range map[class][]uint64{
		quietClass:  {13, 31, 43, 45, 63, 68, 92, 94, 121, 126, 137, 141, 160, 999},
		resetClass:  {46, 48, 62, 64, 74, 95, 109, 110, 119, 120, 136, 140, 143, 144, 150, 154, 155, 156, 158},
		rebootClass: {54, 79, 151},
	} {
		for _, x := range xids {
			if got := classOf(x); got != want {
				t.Errorf("classOf(%d) = %d, want %d", x, got, want)
			}
		}
	}
}
