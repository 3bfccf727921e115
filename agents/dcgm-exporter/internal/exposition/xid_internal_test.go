package exposition

import (
	"slices"
	"testing"
)

// TestXIDsOfTheCatalogue: alerts watch the class of a code, and people read its text.
func TestXIDsOfTheCatalogue(t *testing.T) {
	unused := []uint64{5, 10, 15, 17, 23, 49, 50, 51, 52, 53, 55, 87, 90, 91, 108}
	for code := uint64(1); code <= 172; code++ {
		if known := meaning(code) != "Unknown Error"; known == slices.Contains(unused, code) {
			t.Errorf("XID %d has the text %q", code, meaning(code))
		}
	}
	for class, codes := range map[XIDClass][]uint64{
		XIDApplication: {8, 11, 13, 31, 43, 45, 60, 68, 126, 139},
		XIDCritical:    {46, 48, 54, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 144, 147, 150, 151, 155, 156, 158},
		XIDOther:       {14, 44, 63, 92, 94, 121, 137, 154, 157, 160, 171, 172, 173, 999},
	} {
		for _, code := range codes {
			if got := ClassOf(code); got != class {
				t.Errorf("XID %d (%s) has the class %s, want %s", code, meaning(code), got, class)
			}
		}
	}
	if text := meaning(173); text != "Unknown Error" {
		t.Errorf("a code that is not in the catalogue has the text %q", text)
	}
}
