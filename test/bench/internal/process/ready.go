package process

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"outrigger.dev/pkg/pace"
)

// Ready waits until the agent's /readyz says that it is ready.
func (p *Process) Ready(ctx context.Context) error {
	if err := p.Serving(ctx); err != nil {
		return err
	}
	ctx, cancel := Limited(ctx)
	defer cancel()
	for {
		body, status, err := p.fetch(ctx, "/readyz")
		if err != nil {
			return err
		}
		if status == http.StatusOK {
			return nil
		}
		if !pace.Pause(ctx, time.Millisecond) {
			return fmt.Errorf("wait until %s is ready: %w: %s\n%s", p.name(), context.Cause(ctx), body, p.Tail())
		}
	}
}
