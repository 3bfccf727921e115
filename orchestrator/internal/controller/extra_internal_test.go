package controller

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/model"
)

// TestAddExtra makes passes at different times. The conditions are derived again if the policy changes, or a minute after a
// call that asks for it.
func TestAddExtra(t *testing.T) {
	calls, result, again := 0, []metav1.Condition(nil), false
	c := &Controller{cfg: Config{Extra: func(context.Context, model.Policy, string) ([]metav1.Condition, bool) {
		calls++
		return result, again
	}}}
	var s model.Status
	s.Conditions = []metav1.Condition{{Type: model.ConditionReady, Status: metav1.ConditionTrue}}
	start := time.Now()
	pass := func(key string, at time.Duration) time.Duration {
		c.rendered.key = key
		return c.addExtra(t.Context(), model.Policy{}, &s, start.Add(at))
	}
	check := func(when string, wantCalls, wantConditions int) {
		t.Helper()
		if calls != wantCalls || len(s.Conditions) != wantConditions {
			t.Errorf("%s: %d calls and conditions %+v, want %d and %d", when, calls, s.Conditions, wantCalls, wantConditions)
		}
	}
	pass("1", 0)
	check("nothing to say", 1, 1)
	result, again = []metav1.Condition{{Type: model.ConditionOtherOperator, Reason: model.ReasonObjectsFound, Message: "x"}}, true
	pass("1", time.Hour)
	check("the policy is the same", 1, 1)
	if in := pass("2", time.Hour); in != extraEvery {
		t.Errorf("the next call is in %v, want %v", in, extraEvery)
	}
	check("the policy has changed", 2, 2)
	result, again = nil, false
	pass("2", time.Hour+extraEvery/2)
	check("half a minute later", 2, 2)
	if in := pass("2", time.Hour+extraEvery); in != 0 {
		t.Errorf("the next call is in %v, want none", in)
	}
	check("a minute later", 3, 1)
}
