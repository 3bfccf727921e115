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

// Rules say which faults make a GPU unhealthy, and for how long.
//
// An XID counts if it makes a GPU unhealthy. By default the actions of NVIDIA's catalogue decide about
// an XID. An XID does not count if the catalogue asks for nothing, or asks to restart the program on
// the GPU: the GPU continues to work. These are also the XIDs that a program can cause by itself.
// NVIDIA's device plugin ignores 13, 31, 43, 45, 68 and 109. The catalogue demands a reset of the GPU
// for 109, because the next program would hang too.
//
// XID 154 stands for the recovery actions that a driver asks for: if a list disables it, the actions
// do not count either.
type Rules struct {
	// Quiet is the time without another XID after which a GPU is healthy, unless the XID needs
	// more. If 0, it is DefaultQuiet.
	Quiet time.Duration
	// none is set if only faults of Set and of listed XIDs count, and every if all XIDs count.
	none, every bool
	// listed has the XIDs of the lists.
	listed map[uint64]Severity
	// set has the severities of Set.
	set map[Class]Severity
}

// ParseRules reads the values of DP_DISABLE_HEALTHCHECKS and DP_ENABLE_HEALTHCHECKS: lists of XIDs,
// or "all" (also "xids"), in any case and with spaces. Enabled XIDs take precedence over disabled
// XIDs, and both over the class of an XID. If all are disabled, the lasting state of GPUs does not
// count either. Other items are returned as unknown and have no effect.
func ParseRules(disable, enable string) (rules Rules, unknown []string) {
	off, allOff, bad1 := parseXIDs(disable)
	on, allOn, bad2 := parseXIDs(enable)
	r := Rules{none: allOff && !allOn, every: allOn, listed: map[uint64]Severity{}}
	if !allOn {
		for _, x := range off {
			r.listed[x] = Ignored
		}
	}
	for _, x := range on {
		r.listed[x] = Failure
	}
	return r, append(bad1, bad2...)
}

// With returns the rules with other severities of classes. The lists of ParseRules take precedence
// over them.
func (r Rules) With(severities map[Class]Severity) Rules {
	r.set = severities
	return r
}

// Counts reports whether the XID makes a GPU unhealthy.
func (r Rules) Counts(xid uint64) bool { return r.severityOf(xid) == Failure }

// severityOf returns the severity of an XID.
func (r Rules) severityOf(xid uint64) Severity {
	if s, ok := r.listed[xid]; ok {
		return s
	}
	if r.every {
		return Failure
	}
	if s, ok := r.set[ofXID(xid)]; ok {
		return s
	}
	action, _ := LookUpXID(xid)
	return r.severity(ofAction(action))
}

// ofRecovery returns the severity of the class of a recovery action.
func (r Rules) ofRecovery(name Class) Severity {
	switch s, ok := r.listed[recoveryChanged]; {
	case ok && s == Ignored:
		return Ignored
	case ok:
		r.none = false
	}
	return r.severity(name)
}

// severity returns the severity of a class. Classes that are not in the table are failures.
func (r Rules) severity(name Class) Severity {
	if s, ok := r.set[name]; ok {
		return s
	}
	for _, c := range classes() {
		if c.name == name && r.none {
			return Ignored
		}
		if c.name == name {
			return c.severity
		}
	}
	return Failure
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
