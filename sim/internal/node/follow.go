package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// followCheck is how often FollowInstances checks whether the node has a new state. It is for a process that was
// killed before it could wake the others.
const followCheck = time.Minute

// FollowInstances updates the MIG instances in procfs of the node at root whenever a program
// changes them, as the kernel driver does. With nodes, it also makes their device nodes. It returns
// nil when ctx ends, or when the node is deleted or has a new state. Until then it sleeps, because
// it runs on each simulated node.
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
	defer n.wakeAtEnd(ctx)()
	limit := time.Duration(0) // the instances of now are shown at once
	for seen, shown := uint64(0), uint64(math.MaxUint64); ; limit = followCheck {
		seen = n.state.WaitEvent(seen, limit)
		if ctx.Err() != nil || !n.state.Current() {
			return nil
		}
		if seen == shown {
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
}

// wakeAtEnd wakes WaitEvent when ctx ends. The caller calls the returned function before it closes the state.
func (n *Node) wakeAtEnd(ctx context.Context) (stop func()) {
	woken := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(woken)
		_ = n.state.Wake() // without it, WaitEvent returns at its limit
	})
	return func() {
		if !cancel() {
			<-woken
		}
	}
}
