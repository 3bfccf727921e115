// Package publish puts what feature discovery has found where people and
// programs look: labels, the condition GPUReady and the start-up taint of the own
// Node, or labels as Node Feature Discovery takes them. What is there already is
// not written again.
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

// Wanted is what shall be published. It is never changed.
type Wanted struct {
	// Labels is nil while it is not known what they should be: then those that
	// are there stay as they are.
	Labels map[string]string
	// Ready is the condition, nil for none.
	Ready *object.Condition
}

// Output is where labels go.
type Output interface {
	// Put makes labels what is published, and returns nil once they are. It writes
	// nothing if they are already. Put may be called again after an error.
	Put(ctx context.Context, labels map[string]string) error
}

// Clock gives the time.
type Clock func() time.Time

// Stamper adds the time to labels.
type Stamper struct {
	// Now is nil for labels without a time.
	Now Clock
}

// stamp returns labels with the time of there, if those are there, and
// otherwise with the time that it is, and whether they differ from there.
func (s Stamper) stamp(labels, there map[string]string) (stamped map[string]string, differ bool) {
	stamped = maps.Clone(labels)
	if stamped == nil {
		stamped = map[string]string{}
	}
	if s.Now == nil || len(labels) == 0 {
		return stamped, !maps.Equal(stamped, there)
	}
	if at, ok := there[Timestamp]; ok {
		stamped[Timestamp] = at
		if maps.Equal(stamped, there) {
			return stamped, false
		}
	}
	stamped[Timestamp] = strconv.FormatInt(s.Now().Unix(), 10)
	return stamped, true
}
