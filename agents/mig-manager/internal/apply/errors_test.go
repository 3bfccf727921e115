package apply_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/procowner"
)

func process(pid int) mig.Holder { return mig.Holder{Process: procowner.Process{PID: pid}} }

func TestAnErrorHasTheHoldersOfAllGPUs(t *testing.T) {
	result := apply.Result{GPUs: []apply.Outcomes{
		{Outcome: apply.RolledBack, Err: &apply.InUse{Index: 1, Holders: []mig.Holder{process(7)}}},
		{Outcome: apply.Applied},
		{Outcome: apply.RolledBack, Err: fmt.Errorf("GPU 5: %w", &apply.InUse{Index: 5})}, // the driver names nobody
		{Outcome: apply.RolledBack, Err: fmt.Errorf("GPU 3: %w", &apply.InUse{Index: 3, Holders: []mig.Holder{process(8), process(9)}})},
	}}
	if got, want := apply.Holders(result.Err()), []mig.Holder{process(7), process(8), process(9)}; !slices.Equal(got, want) {
		t.Errorf("Holders() = %v, want %v", got, want)
	}
	for _, err := range []error{nil, errors.New("it broke"), &apply.InUse{Index: 5}} {
		if got := apply.Holders(err); len(got) > 0 {
			t.Errorf("Holders(%v) = %v", err, got)
		}
	}
}

// A reboot would end the users of a GPU that is in use.
func TestNeedsReboot(t *testing.T) {
	reboot := apply.Outcomes{Outcome: apply.NeedsReboot, Err: &apply.RebootError{Reason: "no reset"}}
	used := apply.Outcomes{Outcome: apply.RolledBack, Err: &apply.InUse{Index: 1, Holders: []mig.Holder{process(7)}}}
	for name, tc := range map[string]struct {
		gpus []apply.Outcomes
		want bool
	}{
		"nothing was done":                  {},
		"all is done":                       {gpus: []apply.Outcomes{{Outcome: apply.Applied}}},
		"only a reboot is missing":          {gpus: []apply.Outcomes{{Outcome: apply.Applied}, reboot}, want: true},
		"another GPU is in use":             {gpus: []apply.Outcomes{used, reboot}},
		"another GPU is in use, after this": {gpus: []apply.Outcomes{reboot, used}},
	} {
		if got := (apply.Result{GPUs: tc.gpus}).NeedsReboot(); got != tc.want {
			t.Errorf("%s: NeedsReboot() = %t", name, got)
		}
	}
}
