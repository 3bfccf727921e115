package controller

import (
	"log/slog"
	"strings"
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

// A roll-out on thousands of nodes changes the numbers all the time, and the state a few times.
func TestOneLogLinePerChangeOfAStage(t *testing.T) {
	var out strings.Builder
	c := &Controller{cfg: Config{Log: slog.New(slog.NewTextHandler(&out, nil))}}
	before := []model.StageStatus{{Name: "a", State: model.Ready, Ready: 3}, {Name: "b", State: model.Ready}}
	c.logStages(before, []model.StageStatus{
		{Name: "a", State: model.Ready, Ready: 2},
		{Name: "b", State: model.Failed, Failed: 1, Message: "failed on 1: ImagePullBackOff on n1"},
	})
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=INFO") || !strings.Contains(got, "stage=b state=Failed") || !strings.Contains(got, "ImagePullBackOff on n1") {
		t.Errorf("the log is\n%s", got)
	}
}

// A plan whose status is not written yet repairs objects, and no later plan says so again.
func TestRepairsAreReportedWithoutAStatus(t *testing.T) {
	got := repairsOnly([]model.Event{{Reason: "Degraded"}, {Reason: "DriftRepaired", Repair: true}})
	if len(got) != 1 || got[0].Reason != "DriftRepaired" {
		t.Errorf("the Events are %+v", got)
	}
}
