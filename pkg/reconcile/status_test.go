package reconcile_test

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/reconcile"
)

func TestStatusReportsWhatIsNew(t *testing.T) {
	var s reconcile.Status
	if err := s.Err(); err != nil {
		t.Errorf("the zero Status has the error %v", err)
	}
	full, other := errors.New("no space"), errors.New("no memory")
	for i, step := range []struct {
		err     error
		changed bool
	}{
		{nil, false}, {full, true}, {errors.New("no space"), false}, {other, true}, {nil, true}, {nil, false}, {full, true},
	} {
		if changed := s.Set(step.err); changed != step.changed || !errors.Is(s.Err(), step.err) {
			t.Errorf("%d: changed %v, error %v, want %v and %v", i, changed, s.Err(), step.changed, step.err)
		}
	}
	assert.ErrorIs(t, reconcile.NewStatus(full).Err(), full)
}
