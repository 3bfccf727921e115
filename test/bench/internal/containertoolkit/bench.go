// Package containertoolkit measures the container toolkit: the binaries that ship, on a simulated
// node. This process runs in the node.
package containertoolkit

import (
	"context"

	"outrigger.dev/test/bench/internal/report"
	"outrigger.dev/test/bench/internal/simnode"
)

// Name is the name of the agent and of its binary.
const Name = "container-toolkit"

// Bench measures the container toolkit on Node, which has 8 whole GPUs. It measures each
// figure Runs times.
type Bench struct {
	Node   *simnode.Node
	Runs   int
	Report *report.Table
}

// Run measures all figures. At its end the node is unchanged.
func (b *Bench) Run(ctx context.Context) error {
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error {
			return b.generate(ctx, "8 GPUs", "7", report.Goal{Peer: "151–200 ms", Target: 20})
		},
		b.starts,
		b.Node.Partition,
		func(ctx context.Context) error {
			return b.generate(ctx, "8 GPUs × 7 MIG", "7:6", report.Goal{Peer: "821 ms", Target: 40})
		},
		b.Node.Unpartition,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}
