package loader

import (
	"context"
	"sync"
)

// background is work that other work interrupts. The zero value is ready to use.
type background struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

// run calls f with a context that ends when interrupt is called. It returns context.Canceled if f fails after that.
func (b *background) run(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	b.mu.Lock()
	b.cancel, b.done = cancel, done
	b.mu.Unlock()
	if err := f(ctx); err == nil || ctx.Err() == nil {
		return err
	}
	return ctx.Err()
}

// interrupt ends the work, and waits for its end.
func (b *background) interrupt() {
	b.mu.Lock()
	cancel, done := b.cancel, b.done
	b.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
}
