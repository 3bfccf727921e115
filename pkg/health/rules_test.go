package health_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/health"
)

func TestRules(t *testing.T) {
	for name, tc := range map[string]struct {
		disable, enable string
		counts, ignored []uint64
		unknown         []string
	}{
		"by default the catalogue decides": {
			counts:  []uint64{1, 48, 61, 64, 74, 78, 79, 95, 109, 119, 140, 999},
			ignored: []uint64{8, 13, 31, 43, 45, 63, 68, 92, 94, 121, 137, 160},
		},
		"109 can be ignored, as NVIDIA's device plugin does": {disable: "109", counts: []uint64{48}, ignored: []uint64{109}},
		"all turns every XID off":                            {disable: "all", ignored: []uint64{13, 48, 79}},
		"xids turns every XID off":                           {disable: "XIDs", ignored: []uint64{13, 48, 79}},
		"a list is ignored too": {
			disable: " 79, 48 ", counts: []uint64{95}, ignored: []uint64{13, 48, 79},
		},
		"what is enabled counts although applications cause it": {
			enable: "13", counts: []uint64{13, 79}, ignored: []uint64{31},
		},
		"enabled goes before disabled": {
			disable: "79", enable: "79", counts: []uint64{79},
		},
		"one enabled XID counts although all are disabled": {
			disable: "all", enable: "79", counts: []uint64{79}, ignored: []uint64{48, 13},
		},
		"all enabled goes before everything": {
			disable: "79,all", enable: "ALL", counts: []uint64{13, 31, 79},
		},
		"items that are not XIDs are reported and have no effect": {
			disable: "79,x1,-3", enable: "foo", counts: []uint64{48}, ignored: []uint64{79},
			unknown: []string{"x1", "-3", "foo"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules, unknown := health.ParseRules(tc.disable, tc.enable)
			for _, x := range tc.counts {
				if !rules.Counts(x) {
					t.Errorf("xid %d is ignored, want it to count", x)
				}
			}
			for _, x := range tc.ignored {
				if rules.Counts(x) {
					t.Errorf("xid %d counts, want it ignored", x)
				}
			}
			if diff := cmp.Diff(tc.unknown, unknown); diff != "" {
				t.Errorf("unknown items (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSeveritiesOfClasses(t *testing.T) {
	for name, tc := range map[string]struct {
		set             map[health.Class]health.Severity
		disable, enable string
		counts, ignored []uint64
	}{
		"a class of XIDs counts": {
			set: map[health.Class]health.Severity{health.XIDRestartApp: health.Failure}, counts: []uint64{13, 94}, ignored: []uint64{63, 43},
		},
		"a class of XIDs is only a warning": {
			set: map[health.Class]health.Severity{health.XIDReset: health.Warning}, counts: []uint64{79}, ignored: []uint64{48, 95},
		},
		"a single XID goes before its class": {
			set:    map[health.Class]health.Severity{health.XIDReset: health.Ignored, "xid-95": health.Failure},
			counts: []uint64{95}, ignored: []uint64{48},
		},
		"the lists go before classes": {
			set:     map[health.Class]health.Severity{"xid-94": health.Failure, "xid-95": health.Ignored},
			disable: "94", enable: "95", counts: []uint64{95}, ignored: []uint64{94},
		},
		"a class that is set counts although all XIDs are disabled": {
			set: map[health.Class]health.Severity{health.XIDReboot: health.Failure}, disable: "all", counts: []uint64{79}, ignored: []uint64{95},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules, _ := health.ParseRules(tc.disable, tc.enable)
			rules = rules.With(tc.set)
			for _, x := range tc.counts {
				if !rules.Counts(x) {
					t.Errorf("xid %d is ignored, want it to count", x)
				}
			}
			for _, x := range tc.ignored {
				if rules.Counts(x) {
					t.Errorf("xid %d counts, want it ignored", x)
				}
			}
		})
	}
}

func TestParseClass(t *testing.T) {
	for _, c := range append(health.Classes(), "xid-0", "xid-79", "xid-4294967295") {
		if got, err := health.ParseClass(string(c)); err != nil || got != c {
			t.Errorf("ParseClass(%q) = %q, %v", c, got, err)
		}
	}
	for _, name := range []string{"", "lost", "unreadable", "xid", "xid-", "xid-x", "xid--1", "xid-079", "xid-4294967296", "ROW-REMAP-FAILED"} {
		if got, err := health.ParseClass(name); err == nil {
			t.Errorf("ParseClass(%q) = %q, want an error", name, got)
		}
	}
}

func TestQuietWindowCanBeChosen(t *testing.T) {
	rules, _ := health.ParseRules("", "")
	rules.Quiet = 2 * time.Minute
	m := run(rules, script{{0, observe()}, {1, apply(xid("GPU-0", 61))}})
	if at, _ := m.Next(); !at.Equal(minute(3)) {
		t.Errorf("Next() = %v, want %v", at, minute(3))
	}
	const want = "xid 61 (internal micro-controller breakpoint): healthy again after 2m0s without another"
	if got := m.View().Of("GPU-0").Reason; got != want {
		t.Errorf("reason is %q, want %q", got, want)
	}
}
