// Package publish keeps labels in a features file or a NodeFeature object for Node Feature
// Discovery, or prints them. It writes only if the published labels differ. Package nodestate
// writes to the Node itself.
package publish

import (
	"context"
	"time"

	"outrigger.dev/pkg/nodestate"
)

// Timestamp is the label with the time of the last change of the labels, in seconds since
// 1970.
const Timestamp = "nvidia.com/gfd.timestamp"

// Output is a place to publish labels.
type Output interface {
	// Put publishes exactly these labels, and returns nil once they are published. It writes
	// nothing if they are published already. Put may be called again after an error.
	Put(ctx context.Context, labels map[string]string) error
}

// Stamper adds a label with the time of the last change of the labels.
type Stamper struct {
	// Key is Timestamp, or "" for labels without a timestamp.
	Key string
	Now func() time.Time
}

// stamp returns labels with the timestamp, and whether they differ from the published ones.
func (s Stamper) stamp(labels, published map[string]string) (stamped map[string]string, differ bool) {
	return nodestate.Stamp(s.Key, s.Now, labels, published)
}
