package license

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/cause"
)

func TestNext(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// sight is a status at a time, and the reason of the Event that follows.
	type sight struct {
		at             time.Duration
		status, reason string
		changed        bool
	}
	const (
		licensed, restricted = "Licensed (Expiry: 2026-1-31 9:5:7 GMT)", "Unlicensed (Restricted)"
	)
	for name, sights := range map[string][]sight{
		"it comes soon":          {{0, "Unlicensed", "", true}, {10 * time.Second, licensed, "", true}},
		"it is there":            {{0, licensed, "", true}, {grace, licensed, "", false}},
		"it is renewed":          {{0, licensed, "", true}, {grace, "Licensed (Expiry: 2026-2-1 9:5:7 GMT)", "", false}},
		"it never comes":         {{0, "Unlicensed", "", true}, {grace - 1, "Unlicensed", "", false}, {grace, "Unlicensed", string(cause.VGPULicenseMissing), true}, {2 * grace, "Unlicensed", "", false}},
		"it comes late":          {{0, "Unlicensed", "", true}, {grace, "Unlicensed", string(cause.VGPULicenseMissing), true}, {2 * grace, licensed, ReasonLicensed, true}, {3 * grace, licensed, "", false}},
		"it is lost":             {{0, licensed, "", true}, {grace, restricted, string(cause.VGPULicenseLost), true}, {3 * grace, restricted, "", false}},
		"it is lost twice":       {{0, licensed, "", true}, {1, restricted, string(cause.VGPULicenseLost), true}, {2, licensed, ReasonLicensed, true}, {3, restricted, string(cause.VGPULicenseLost), true}},
		"its absence gets worse": {{0, "Unlicensed (Unrestricted)", "", true}, {1, restricted, "", true}},
	} {
		t.Run(name, func(t *testing.T) {
			var states map[string]state
			for i, s := range sights {
				var got []change
				p := Product{GPU: "0", Name: "vCS", Status: s.status}
				states, got = next(states, []Product{p}, start.Add(s.at))
				var want []change
				if s.changed {
					want = []change{{p, s.reason}}
				}
				if d := cmp.Diff(want, got, cmp.AllowUnexported(change{})); d != "" {
					t.Errorf("sight %d (-want +got):\n%s", i, d)
				}
			}
		})
	}
}
