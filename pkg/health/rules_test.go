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
		"by default the XIDs of applications are ignored": {
			counts:  []uint64{1, 48, 63, 64, 74, 79, 94, 95, 109, 119},
			ignored: []uint64{13, 31, 43, 45, 68},
		},
		"109 can be ignored, as NVIDIA's device plugin does": {disable: "109", counts: []uint64{48}, ignored: []uint64{109}},
		"all turns every XID off":                            {disable: "all", ignored: []uint64{13, 48, 79}},
		"xids turns every XID off":                           {disable: "XIDs", ignored: []uint64{13, 48, 79}},
		"a list is ignored too": {
			disable: " 79, 48 ", counts: []uint64{94}, ignored: []uint64{13, 48, 79},
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

func TestQuietWindowCanBeChosen(t *testing.T) {
	rules, _ := health.ParseRules("", "")
	rules.Quiet = 2 * time.Minute
	m := run(rules, script{{0, observe()}, {1, apply(xid("GPU-0", 94))}})
	if at, _ := m.Next(); !at.Equal(minute(3)) {
		t.Errorf("Next() = %v, want %v", at, minute(3))
	}
	const want = "xid 94 (contained memory error): healthy again after 2m0s without another"
	if got := m.View().Of("GPU-0").Reason; got != want {
		t.Errorf("reason is %q, want %q", got, want)
	}
}
