package loader

import (
	"context"
	"errors"

	"outrigger.dev/agents/driver-loader/internal/progress"
	"outrigger.dev/pkg/cause"
)

// Next derives the next step of a node, like the function Next. It waits instead of a build that would fail
// again. A step that is tried again has the causes why it failed.
func (l *Loader) Next(ctx context.Context, o Observation, d Desired) Step {
	step := Next(o, d)
	if step.optional != "" {
		return step // the journal has the failures of optional modules
	}
	if step.Kind != Build {
		if step.Kind == l.failure.Kind && step.Driver.same(l.failure.Driver) {
			step.Causes = append(step.Causes, l.failure.Causes...)
		}
		return step
	}
	p, _ := o.payload(step.Driver.Digest)
	why, pending := l.cfg.Builder.Failure(ctx, l.request(o.Kernel, p, step.Driver.Flavour))
	if why != nil {
		step.Causes = []cause.Cause{*why}
	}
	switch {
	case !pending:
		return step
	case step.ahead:
		return Step{Kind: Done, Driver: o.Running, Causes: step.Causes, Optional: step.Optional, ahead: true}
	default:
		return wait(step.Causes...)
	}
}

// remember records the result of a step, for Next.
func (l *Loader) remember(step Step, err error) {
	l.failure = Step{}
	if err != nil {
		l.failure = Step{Kind: step.Kind, Driver: step.Driver, Causes: causes(step, err)}
	}
}

// visible returns the step that others see while it is performed. A node whose driver works stays ready
// while another driver is prepared.
func (s Step) visible(o Observation) Step {
	if s.ahead {
		return Step{Kind: Done, Driver: o.Running, Causes: s.Causes, Optional: s.Optional, ahead: true}
	}
	return s
}

// Report records the progress of the current step, for Ready.
func (l *Loader) Report(p progress.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.progress = ": " + p.String()
}

// Ready returns nil if the driver works. Otherwise, it returns the causes, and the current step with its
// progress.
func (l *Loader) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch s := l.state; s.Kind {
	case Done:
		return nil
	case Wait:
		return errors.Join(cause.Lines(s.Causes)...)
	case "":
		return errors.New("the agent has not observed the node yet")
	default:
		return errors.Join(append(cause.Lines(s.Causes), errors.New(s.String()+l.progress))...)
	}
}
