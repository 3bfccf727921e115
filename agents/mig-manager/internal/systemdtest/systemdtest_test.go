package systemdtest_test

import (
	"testing"

	"outrigger.dev/agents/mig-manager/internal/systemdtest"
)

func TestBoot(t *testing.T) {
	h := systemdtest.New(t)
	h.Unit("a.service", "[Service]\nExecStart=/bin/sleep 1000\n")
	h.Boot("")
	if got := h.State("a.service"); got != "inactive" {
		t.Errorf("a.service is %s", got)
	}
	h.Must("systemctl", "start", "a.service")
	if got := h.State("a.service"); got != "active" {
		t.Errorf("a.service is %s", got)
	}
}
