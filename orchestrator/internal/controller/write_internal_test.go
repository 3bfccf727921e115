package controller

import (
	"testing"

	"outrigger.dev/orchestrator/internal/model"
)

// A pod that fails again and again moves its stage between these states. Writing each of them at
// once would be a request for each of its attempts.
func TestOutlineHasNoNumbersOfNodes(t *testing.T) {
	of := func(state string, ready int) string {
		return outline(model.Status{Stages: []model.StageStatus{{Name: "device-plugin", State: state, Desired: 3, Ready: ready}}})
	}
	for _, state := range []string{model.Progressing, model.Degraded} {
		if of(state, 2) != of(model.Ready, 3) {
			t.Errorf("%s is written at once", state)
		}
	}
	for _, state := range []string{model.Waiting, model.Failed} {
		if of(state, 3) == of(model.Ready, 3) {
			t.Errorf("%s is not written at once", state)
		}
	}
}
