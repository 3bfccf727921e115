package cause_test

import (
	"errors"
	"fmt"
	"testing"

	"outrigger.dev/pkg/cause"
)

func TestACauseIsOneLineAndAnError(t *testing.T) {
	c := cause.Cause{Code: "ModuleInUse", Subject: "nvidia_uvm", Text: "in use by python (pid 12)", Fix: "stop it"}
	var found cause.Cause
	if err := fmt.Errorf("unload the driver: %w", c); !errors.As(err, &found) || found != c || err.Error() != "unload the driver: nvidia_uvm: in use by python (pid 12): stop it" {
		t.Errorf("%v", err)
	}
	if got := (cause.Cause{Subject: "kernel", Text: "is too old"}).Error(); got != "kernel: is too old" {
		t.Error(got)
	}
}
