package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/pace"
)

const (
	// flap is how long the GPUs of a flapping node can be used, and then cannot be used.
	flap = 10 * time.Second
	// joins is the number of nodes that join the cluster in a minute, and of nodes that leave it.
	joins = 50
)

// churn measures the program while a fifth of the nodes flap, and nodes join and leave the cluster. The cluster must have more
// nodes than leave it.
func (b *Bench) churn(ctx context.Context) (err error) {
	if b.Nodes <= joins {
		return nil
	}
	changes, stop := context.WithCancel(ctx)
	group, changes := errgroup.WithContext(changes)
	defer func() {
		stop()
		if ended := group.Wait(); !errors.Is(ended, context.Canceled) {
			err = errors.Join(err, ended)
		}
	}()
	flapping := b.Nodes / 5
	return b.measureWindow(ctx, window{
		name: fmt.Sprintf("a minute with %d nodes flapping, %d joining and %d leaving", flapping, joins, joins),
		begin: func() error {
			group.Go(func() error { return b.scene.flap(changes, flapping) })
			group.Go(func() error { return b.scene.joinAndLeave(changes) })
			return nil
		},
	})
}

// flap changes the condition GPUReady of nodes, as feature discovery does, until ctx ends.
func (s *scene) flap(ctx context.Context, nodes int) error {
	for status := "False"; ; {
		group, requests := errgroup.WithContext(ctx)
		group.SetLimit(creators)
		for i := range nodes {
			group.Go(func() error {
				path := "/api/v1/nodes/" + nodeName(s.neverReady+i, s.neverReady) + "/status"
				return s.do(requests, http.MethodPatch, path, map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
					"type": "GPUReady", "status": status, "reason": "PluginNotReady", "message": "the device plugin is not ready",
					"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
				}}}}, nil)
			})
		}
		if err := group.Wait(); err != nil || !pace.Pause(ctx, flap) {
			return errors.Join(err, ctx.Err())
		}
		status = map[string]string{"False": "True", "True": "False"}[status]
	}
}

// joinAndLeave creates a node and deletes another one in equal intervals, until ctx ends.
func (s *scene) joinAndLeave(ctx context.Context) error {
	for i := 0; ; i++ {
		joined := fmt.Sprintf("joined-%05d", i)
		if err := s.do(ctx, http.MethodPost, "/api/v1/nodes", node(joined), nil); err != nil {
			return err
		}
		left := fmt.Sprintf("joined-%05d", i-joins/10)
		if i < joins/10 {
			left = nodeName(s.nodes-1-i, s.neverReady)
		}
		if err := s.do(ctx, http.MethodDelete, "/api/v1/nodes/"+left, nil, nil); err != nil {
			return err
		}
		if !pace.Pause(ctx, time.Minute/joins) {
			return ctx.Err()
		}
	}
}
