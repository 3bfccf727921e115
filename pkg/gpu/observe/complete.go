package observe

import (
	"context"
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"slices"
	"time"

	"outrigger.dev/pkg/gpu"
)

// incomplete returns a channel that receives a value when it is time to read the missing values of
// a node again. A failed call may succeed later without an event. It returns nil for a node without
// missing values.
func (o *Observer[D, P]) incomplete(n *gpu.Node) <-chan time.Time {
	o.logMissing(n)
	if n.Complete() && o.links.err == nil {
		o.completion.Reset()
		return nil
	}
	return time.After(o.completion.Next())
}

// mayShowMore reports whether a refresh may show more of a node that is not complete. If the source
// can, mayShowMore reads only the values that the node lacks.
func (o *Observer[D, P]) mayShowMore(ctx context.Context) bool {
	c, ok := o.cfg.Source.(gpu.Completer)
	if !ok || o.done.Node.Faulty() || o.links.err != nil {
		return true
	}
	n, err := c.Complete(ctx)
	return err != nil || !equalExceptLinks(o.done.Node, n)
}

// logMissing logs the values that could not be read, once for each change.
func (o *Observer[D, P]) logMissing(n *gpu.Node) {
	missing := slices.Clone(n.Missing)
	for i := range n.GPUs {
		for _, f := range n.GPUs[i].Missing {
			if !slices.Contains(missing, f) {
				missing = append(missing, f)
			}
		}
	}
	if slices.Equal(missing, o.missing) {
		return
	}
	o.missing = missing
	if len(missing) == 0 {
		o.cfg.Log.Info("all values of the gpus can be read again")
		return
	}
	reasons := make([]string, 0, len(missing))
	for _, f := range missing {
		reasons = append(reasons, f.Error())
	}
	o.cfg.Log.Warn("some values of the gpus cannot be read, continuing without them and retrying", "reasons", reasons)
}

// links has the links of the GPUs as they were last read.
type links struct {
	// of is the node whose GPUs have these links. err is the reason why some could not be read.
	of  *gpu.Node
	err error
}

// add returns n with its links. It reads the links if other GPUs work than at the last attempt, if the
// last attempt failed, or if afresh is set.
func (l *links) add(ctx context.Context, src gpu.Source, n *gpu.Node, afresh bool) *gpu.Node {
	if _, ok := src.(gpu.Linker); !ok {
		return n
	}
	if !afresh && l.err == nil && l.of != nil && sameGPUs(l.of, n) {
		out := *n
		out.Links = l.of.Links
		return &out
	}
	l.of, l.err = gpu.Linked(ctx, src, n)
	return l.of
}

// sameGPUs reports whether the same GPUs work in two nodes.
func sameGPUs(a, b *gpu.Node) bool {
	return slices.EqualFunc(a.GPUs, b.GPUs, func(x, y gpu.GPU) bool {
		return x.Index == y.Index && x.UUID == y.UUID && (x.Fault == nil) == (y.Fault == nil)
	})
}

// equalExceptLinks reports whether two nodes are equal except for their links.
func equalExceptLinks(a, b *gpu.Node) bool {
	x, y := *a, *b
	x.Links, y.Links = nil, nil
	return reflect.DeepEqual(&x, &y) // a node is a tree, and a new field needs no code here
}
