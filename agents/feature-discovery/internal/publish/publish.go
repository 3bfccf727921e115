// Package publish reconciles what feature discovery publishes with the desired
// state: labels, the condition GPUReady and the start-up taint of the Node, or
// labels in a file or object of Node Feature Discovery. It writes only differences.
package publish

import (
	"context"
	"maps"
	"strconv"
	"time"

	"outrigger.dev/agents/feature-discovery/internal/object"
)

// Timestamp is the label with the time at which the labels last changed, in
// seconds since 1970.
const Timestamp = "nvidia.com/gfd.timestamp"

// Desired is the state to publish. It is immutable.
type Desired struct {
	// Labels is nil while they are unknown: then published labels stay as they are.
	Labels map[string]string
	// Ready is the condition, nil if none is published.
	Ready *object.Condition
}

// Output is a place to publish labels.
type Output interface {
	// Put publishes exactly these labels, and returns nil once they are there. It
	// writes nothing if they are there already. Put may be called again after an
	// error.
	Put(ctx context.Context, labels map[string]string) error
}

// Clock returns the current time.
type Clock func() time.Time

// Stamper adds the label Timestamp to labels.
type Stamper struct {
	// Now is nil for labels without a timestamp.
	Now Clock
}

// stamp returns labels with a timestamp, and whether they differ from the
// published ones. It keeps the published timestamp if nothing else changed, and sets
// a new one otherwise.
func (s Stamper) stamp(labels, published map[string]string) (stamped map[string]string, differ bool) {
	stamped = maps.Clone(labels)
	if stamped == nil {
		stamped = map[string]string{}
	}
	if s.Now == nil || len(labels) == 0 {
		return stamped, !maps.Equal(stamped, published)
	}
	if at, ok := published[Timestamp]; ok {
		stamped[Timestamp] = at
		if maps.Equal(stamped, published) {
			return stamped, false
		}
	}
	stamped[Timestamp] = strconv.FormatInt(s.Now().Unix(), 10)
	return stamped, true
}
