package controller

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/model"
)

// extraEvery is the interval between calls of Config.Extra while it asks for another call.
const extraEvery = time.Minute

// Extra returns conditions of a policy that follow from its values and from objects that the controller does
// not watch. A policy has these conditions only while they are True. again asks for another call in a minute,
// even if the policy does not change.
type Extra func(ctx context.Context, p model.Policy, kubernetes string) (conditions []metav1.Condition, again bool)

// extra caches the result of Config.Extra until the policy changes.
type extra struct {
	key        string
	conditions []metav1.Condition
	// next is the time of the next call, or zero.
	next time.Time
}

// addExtra sets the conditions of Config.Extra in a status. It returns the time until the next call, or 0.
func (c *Controller) addExtra(ctx context.Context, p model.Policy, s *model.Status, now time.Time) time.Duration {
	if c.cfg.Extra == nil || p.Deleting {
		return 0
	}
	if e := &c.extra; e.key != c.rendered.key || !e.next.IsZero() && !now.Before(e.next) {
		conditions, again := c.cfg.Extra(ctx, p, c.kubernetes)
		*e = extra{key: c.rendered.key, conditions: conditions}
		if again {
			e.next = now.Add(extraEvery)
		}
	}
	for _, name := range []string{model.ConditionValuesIgnored, model.ConditionOtherOperator} {
		if meta.FindStatusCondition(c.extra.conditions, name) == nil {
			meta.RemoveStatusCondition(&s.Conditions, name)
		}
	}
	for _, condition := range c.extra.conditions {
		condition.Status, condition.ObservedGeneration = metav1.ConditionTrue, s.ObservedGeneration
		condition.LastTransitionTime = metav1.NewTime(now.UTC().Truncate(time.Second))
		meta.SetStatusCondition(&s.Conditions, condition)
	}
	if c.extra.next.IsZero() {
		return 0
	}
	return c.extra.next.Sub(now)
}
