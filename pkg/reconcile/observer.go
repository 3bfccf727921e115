package reconcile

import (
	"context"
	"time"
)

// Observer records a step of a loop, for metrics.
type Observer func(loop string, took time.Duration, err error)

type observerKey struct{}

// WithObserver returns a context that makes Run record each step with o.
func WithObserver(ctx context.Context, o Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, o)
}

func observe(ctx context.Context, loop string, took time.Duration, err error) {
	if o, ok := ctx.Value(observerKey{}).(Observer); ok {
		o(loop, took, err)
	}
}
