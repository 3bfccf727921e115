package contract

import (
	"testing"
	"time"
)

// Who waits tells a reason once, and again when it is another one: a text in
// which the time runs down would be told at every look.
func TestAClaimIsToldInOneWay(t *testing.T) {
	at := func(deadline time.Duration) string {
		return (&claimedError{claim: Claim{Owner: "mig-manager", Reason: "reset of a GPU", Deadline: deadline}}).Error()
	}
	if a, b := at(time.Hour), at(2*time.Hour); a != b || a != "lease is claimed by mig-manager (reset of a GPU)" {
		t.Errorf("claims are told as %q and %q", a, b)
	}
}
