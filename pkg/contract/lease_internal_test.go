package contract

import (
	"testing"
	"time"
)

// A waiting agent logs a reason once for each change: a text with the remaining time
// would be logged at every refresh.
func TestAClaimHasOneText(t *testing.T) {
	at := func(deadline time.Duration) string {
		return (&claimedError{claim: Claim{Owner: "mig-manager", Reason: "reset of a GPU", Deadline: deadline}}).Error()
	}
	if a, b := at(time.Hour), at(2*time.Hour); a != b || a != "lease is claimed by mig-manager (reset of a GPU)" {
		t.Errorf("claims are reported as %q and %q", a, b)
	}
}
