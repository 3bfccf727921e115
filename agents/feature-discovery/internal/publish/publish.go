// Package publish keeps labels in the places of Node Feature Discovery, a file or a NodeFeature, or
// prints them. It writes only differences. Package nodestate keeps the Node itself.
package publish

import (
	"context"
	"time"

	"outrigger.dev/pkg/nodestate"
)

// Timestamp is the label with the time at which the labels last changed, in
// seconds since 1970.
const Timestamp = "nvidia.com/gfd.timestamp"

// Output is a place to publish labels.
type Output interface {
	// Put publishes exactly these labels, and returns nil once they are there. It
	// writes nothing if they are there already. Put may be called again after an
	// error.
	Put(ctx context.Context, labels map[string]string) error
}

// Stamper adds a label with the time at which the labels last changed.
type Stamper struct {
	// Key is Timestamp, empty for labels without one.
	Key string
	Now func() time.Time
}

// stamp returns labels with the timestamp, and whether they differ from the published ones.
func (s Stamper) stamp(labels, published map[string]string) (stamped map[string]string, differ bool) {
	return nodestate.Stamp(s.Key, s.Now, labels, published)
}
