package state

// #include "simstate.h"
import "C"

import (
	"fmt"
	"slices"
	"strings"
)

const limitField = "clock-limits"

// clockLimits returns the names of enum sim_limit, in order.
func clockLimits() []string {
	return []string{
		"setting", "power-cap", "hw-slowdown", "sync-boost", "sw-thermal", "hw-thermal", "power-brake", "display",
		"board", "low-utilization", "reliability",
	}
}

// setLimits sets the reasons that limit the clocks of a GPU. text has names separated by commas, or
// "none".
func setLimits(t *telemetry, text string) error {
	var limits C.uint32_t
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(clockLimits(), name)
		if i < 0 && text != "none" {
			return fmt.Errorf("want none, or of %s, with a comma between them", strings.Join(clockLimits(), ", "))
		}
		if i >= 0 {
			limits |= 1 << i
		}
	}
	t.gpu.limits = limits
	return nil
}

// limitText returns limits in the form of setLimits, or "".
func limitText(limits C.uint32_t) string {
	var names []string
	for i, name := range clockLimits() {
		if limits>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}
