package controller

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/text"
)

const (
	// otherEvery is the interval between two looks at the objects of NVIDIA's GPU Operator while there are some, because a
	// person who reads the condition removes them.
	otherEvery = time.Minute
	// maxCondition is the maximum size of the message of a condition in bytes.
	maxCondition = 2048
)

// extra has the messages of the conditions ValuesIgnored and OtherOperator, until the policy changes.
type extra struct {
	key            string
	ignored, other string
	// next is the time of the next look at the objects of NVIDIA's GPU Operator, or zero.
	next time.Time
}

// addExtra sets the conditions ValuesIgnored and OtherOperator in a status. A policy has these conditions only while they
// are True. It returns the time until the next call, or 0.
func (c *Controller) addExtra(ctx context.Context, p model.Policy, s *model.Status, now time.Time) time.Duration {
	if c.cfg.Ignored == nil || p.Deleting {
		return 0
	}
	e := &c.extra
	if e.key != c.rendered.key {
		*e = extra{key: c.rendered.key, ignored: strings.Join(c.cfg.Ignored(p, c.kubernetes), ". "), next: now}
	}
	if !e.next.IsZero() && !now.Before(e.next) {
		var err error
		if e.other, err = c.cfg.Client.OtherOperator(ctx); err != nil {
			c.cfg.Log.Debug("cannot look for objects of NVIDIA's GPU Operator", "err", err)
		}
		e.next = time.Time{}
		if e.other != "" {
			e.next = now.Add(otherEvery)
		}
	}
	setExtra(s, model.ConditionValuesIgnored, model.ReasonWithoutEffect, e.ignored, now)
	setExtra(s, model.ConditionOtherOperator, model.ReasonObjectsFound, e.other, now)
	if e.next.IsZero() {
		return 0
	}
	return e.next.Sub(now)
}

func setExtra(s *model.Status, condition, reason, message string, now time.Time) {
	if message == "" {
		meta.RemoveStatusCondition(&s.Conditions, condition)
		return
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: condition, Status: metav1.ConditionTrue, Reason: reason, Message: text.Cut(message, maxCondition),
		ObservedGeneration: s.ObservedGeneration, LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
	})
}
