package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/sim/internal/node"
)

// FollowInstances sleeps until something wakes it. Without that, it ends after a minute, longer than this test waits.
func TestFollowInstancesEnds(t *testing.T) {
	const limit = 30 * time.Second
	for name, end := range map[string]func(cfg node.Config, n *node.Node, cancel func()) error{
		"with its context": func(_ node.Config, _ *node.Node, cancel func()) error { cancel(); return nil },
		"with the node":    func(cfg node.Config, _ *node.Node, _ func()) error { return node.Delete(cfg.Root) },
		"with other GPUs":  func(cfg node.Config, _ *node.Node, _ func()) error { return exchange(cfg) },
		"with other GPUs, after the driver": func(cfg node.Config, n *node.Node, _ func()) error {
			return errors.Join(n.SetDriver(false), exchange(cfg))
		},
		"with other GPUs, after a failure": func(cfg node.Config, _ *node.Node, _ func()) error {
			return errors.Join(node.Clear(cfg.Root), exchange(cfg))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, "h100-80", 1)
			n := create(t, cfg)
			g := gpu(n, 0)
			_, err := n.SetMIGMode(g, true)
			assert.NilError(t, err)
			ctx, cancel := context.WithTimeoutCause(t.Context(), limit, errors.New("FollowInstances was not woken"))
			defer cancel()
			ended := make(chan error, 1)
			following, stop := context.WithCancel(t.Context())
			defer stop()
			go func() { ended <- node.FollowInstances(following, cfg.Root, cfg.Host, false) }()
			other, profile := elsewhere(t, n)
			_, err = other.CreateGPUInstance(0, profile, 0)
			assert.NilError(t, err)
			agenttest.Poll(t, "the instance in procfs", func() bool {
				_, err := os.Lstat(filepath.Join(cfg.Root, "proc/driver/nvidia/capabilities/gpu0/mig/gi7"))
				return err == nil
			})
			assert.NilError(t, end(cfg, n, stop))
			select {
			case err := <-ended:
				assert.NilError(t, err)
			case <-ctx.Done():
				t.Error(context.Cause(ctx))
				stop()
				<-ended
			}
		})
	}
}

func exchange(cfg node.Config) error {
	n, err := node.Exchange(cfg)
	if err != nil {
		return err
	}
	return n.Close()
}
