package app

import (
	"context"
	"runtime/debug"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/text"
)

// maxCondition is the maximum size of the message of a condition in bytes.
const maxCondition = 2048

// extra returns the conditions ValuesIgnored and OtherOperator, if they are True. again is true with OtherOperator,
// because a person who reads this condition removes the objects.
func (o *operator) extra(ctx context.Context, p model.Policy, kubernetes string) (conditions []metav1.Condition, again bool) {
	defer debug.FreeOSMemory()
	lines, err := charts.Ignored(charts.Release{Name: p.Release, Namespace: o.store.Namespace, Kubernetes: kubernetes, Values: p.Values})
	if err != nil {
		o.log.Debug("cannot list the values without effect", "err", err)
	} else if len(lines) > 0 {
		conditions = append(conditions, metav1.Condition{
			Type: model.ConditionValuesIgnored, Reason: model.ReasonWithoutEffect, Message: text.Cut(strings.Join(lines, ". "), maxCondition),
		})
	}
	found, err := o.store.Client.OtherOperator(ctx)
	if err != nil {
		o.log.Debug("cannot look for objects of NVIDIA's GPU Operator", "err", err)
	}
	if len(found) == 0 {
		return conditions, false
	}
	return append(conditions, metav1.Condition{
		Type: model.ConditionOtherOperator, Reason: model.ReasonObjectsFound, Message: text.Cut(cluster.OtherOperatorMessage(found), maxCondition),
	}), true
}
