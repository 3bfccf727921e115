package health

import "testing"

// The conditions follow NVIDIA's catalogue.
func TestEndOf(t *testing.T) {
	for want, xids := range map[end][]uint64{
		afterQuiet:  {13, 31, 43, 45, 63, 68, 92, 94, 121, 126, 137, 141, 160, 999},
		afterReset:  {46, 48, 62, 64, 74, 95, 109, 110, 119, 120, 136, 140, 143, 144, 150, 154, 155, 156, 158},
		afterReboot: {54, 79, 151},
	} {
		for _, x := range xids {
			if got := endOf(x); got != want {
				t.Errorf("endOf(%d) = %d, want %d", x, got, want)
			}
		}
	}
}
