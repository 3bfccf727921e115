package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outrigger.dev/pkg/pace"
)

// Play calls do for each step at its time, one after the other, and begins again at the end until it
// has played all steps repeat times. With repeat 0, it repeats until ctx ends. It ends at the first
// error, which names the line of the step. The end of ctx is the error of ctx.
func Play(ctx context.Context, steps []Step, repeat int, do func(context.Context, Step) error) error {
	if repeat == 0 && (len(steps) == 0 || steps[len(steps)-1].At == 0) {
		return errors.New("repeat the scenario without an end: all events are at 0s; give the last event a later time")
	}
	for round := 0; repeat == 0 || round < repeat; round++ {
		begin := time.Now()
		for _, s := range steps {
			if !pace.Pause(ctx, time.Until(begin.Add(s.At))) {
				return context.Cause(ctx)
			}
			if err := do(ctx, s); err != nil {
				return fmt.Errorf("line %d: %w", s.Line, err)
			}
		}
	}
	return nil
}
