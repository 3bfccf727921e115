package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/gpu"
)

// show prints the GPUs as one line of JSON.
func show(ctx context.Context, src gpu.Source, stdout io.Writer) error {
	node, err := src.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read GPUs: %w", err)
	}
	if err := json.NewEncoder(stdout).Encode(node); err != nil {
		return fmt.Errorf("print GPUs: %w", err)
	}
	return nil
}

// watch prints the GPUs once a watch is in force, and after each event that changes
// them, until ctx ends.
func watch(ctx context.Context, src gpu.Source, stdout io.Writer) error {
	changed := make(chan struct{}, 1)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for {
			err := src.Watch(ctx, func(e gpu.Event) {
				if e.Kind == gpu.EventXID {
					return
				}
				select {
				case changed <- struct{}{}:
				default:
				}
			})
			switch {
			case ctx.Err() != nil:
				return nil
			// A snapshot that finds other GPUs ends the watch.
			case !errors.Is(err, gpu.ErrClosed):
				return fmt.Errorf("watch GPUs: %w", err)
			}
		}
	})
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
			}
			if err := show(ctx, src, stdout); err != nil && ctx.Err() == nil {
				return err
			}
		}
	})
	return g.Wait()
}
