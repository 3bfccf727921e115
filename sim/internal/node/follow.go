package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// followPause is how often FollowInstances checks whether it should end.
const followPause = time.Second

// FollowInstances updates the MIG instances in procfs of the node at root whenever a program
// changes them, as the kernel driver does. With nodes, it also makes their device nodes. It returns
// nil when ctx ends, or when the node is deleted or has a new state.
func FollowInstances(ctx context.Context, root string, host Host, nodes bool) (err error) {
	n, err := Open(root, host)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	dev := ""
	if nodes {
		dev = n.path(devDir)
	}
	if err := n.state.ShowAt(n.path(procDir), dev); err != nil {
		return err
	}
	defer n.state.Unfollow()
	limit := time.Duration(0) // the instances of now are shown at once
	for seen, shown := uint64(0), uint64(math.MaxUint64); ctx.Err() == nil && n.state.Current(); limit = followPause {
		if seen = n.state.WaitEvent(seen, limit); seen == shown {
			continue
		}
		// withLock repairs the node before each change, and the repair shows the instances.
		if err := n.withLock(func() error { return nil }); errors.Is(err, ErrReplaced) {
			return nil
		} else if err != nil {
			return fmt.Errorf("show MIG instances: %w", err)
		}
		n.state.Follow(seen)
		shown = seen
	}
	return nil
}
