package kernel

import (
	"slices"
	"strings"
)

// hasFlag reports whether a flag follows the release in a vermagic:
// "6.1.0 SMP preempt mod_unload modversions".
func hasFlag(vermagic, flag string) bool {
	words := strings.Fields(vermagic)
	return len(words) > 1 && slices.Contains(words[1:], flag)
}
