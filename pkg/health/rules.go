package health

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// DefaultQuiet is the time without another XID after which a GPU is healthy, if the Rules do not
// set another time.
const DefaultQuiet = 5 * time.Minute

// application has the XIDs that a program on the GPU can cause by itself. They do not mean that the
// GPU is unhealthy: 13 graphics engine exception, 31 memory page fault, 43 stopped processing, 45
// preemptive clean-up, 68 video processor exception. NVIDIA's device plugin ignores these and 109,
// context switch time-out. NVIDIA's catalogue demands a reset of the GPU for 109, because the next
// program would hang too.
func application() []uint64 { return []uint64{13, 31, 43, 45, 68} }

// Rules says which XIDs count against a GPU, and for how long. XID 154 stands for the recovery
// actions that a driver asks for: if it does not count, the actions do not count either.
type Rules struct {
	// Quiet is the time without another XID after which a GPU is healthy, unless the XID needs
	// more. If 0, it is DefaultQuiet.
	Quiet time.Duration
	// all applies to each XID that is not in only.
	all  bool
	only map[uint64]bool
}

// ParseRules reads the values of DP_DISABLE_HEALTHCHECKS and DP_ENABLE_HEALTHCHECKS: lists of XIDs,
// or "all" (also "xids"), in any case and with spaces. Enabled XIDs take precedence over disabled
// ones, and these over the XIDs that an application can cause. Other items are returned as unknown
// and have no effect.
func ParseRules(disable, enable string) (rules Rules, unknown []string) {
	off, allOff, bad1 := parseXIDs(disable)
	on, allOn, bad2 := parseXIDs(enable)
	r := Rules{all: allOn || !allOff, only: map[uint64]bool{}}
	if !allOn {
		for _, x := range application() {
			r.only[x] = false
		}
		for _, x := range off {
			r.only[x] = false
		}
	}
	for _, x := range on {
		r.only[x] = true
	}
	return r, append(bad1, bad2...)
}

// Counts reports whether the XID makes a GPU unhealthy.
func (r Rules) Counts(xid uint64) bool {
	if counts, ok := r.only[xid]; ok {
		return counts
	}
	return r.all
}

func (r Rules) quiet() time.Duration { return cmp.Or(r.Quiet, DefaultQuiet) }

func parseXIDs(list string) (xids []uint64, all bool, unknown []string) {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.ToLower(strings.TrimSpace(item))
		switch item {
		case "":
			continue
		case "all", "xids":
			all = true
			continue
		}
		x, err := strconv.ParseUint(item, 10, 64)
		if err != nil {
			unknown = append(unknown, item)
			continue
		}
		xids = append(xids, x)
	}
	return xids, all, unknown
}
