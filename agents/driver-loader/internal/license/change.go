package license

import (
	"fmt"
	"time"

	"outrigger.dev/pkg/cause"
)

// ReasonLicensed is the reason of an Event: a license that was lost or missing is there.
const ReasonLicensed = "VGPULicensed"

// grace is how long the license client may take until a missing license is reported. It asks its
// server within a minute of its start; NVIDIA's driver restricts the GPU after 20 minutes.
const grace = 5 * time.Minute

// state is what is known of the license of a GPU.
type state struct {
	Product
	// since is when the license was missed first; zero while it is there.
	since time.Time
	// reported is set if an Event said that the license is not there.
	reported bool
}

// change is what people are told of a license.
type change struct {
	Product
	// reason of the Event, "" for none.
	reason string
}

// fix says what to do about a license that is not there.
const fix = "check gridd.conf and its token, the clock of the node, and that it reaches the license server; nvidia-gridd logs why"

// message is the text of an Event.
func (c change) message() string {
	message := fmt.Sprintf("GPU %s: %s: %s", c.GPU, c.Name, c.Status)
	if !c.Licensed() {
		message += ". The GPU is slow without its license: " + fix
	}
	return message
}

// next returns the states after the products were seen at a time, and what has changed.
func next(before map[string]state, seen []Product, now time.Time) (map[string]state, []change) {
	after := map[string]state{}
	var changes []change
	for _, p := range seen {
		key := p.GPU + " " + p.Name
		was, known := before[key]
		is := state{Product: p, since: was.since, reported: was.reported}
		switch had := known && was.Licensed(); {
		case p.Licensed():
			is.since, is.reported = time.Time{}, false
			c := change{Product: p}
			if was.reported {
				c.reason = ReasonLicensed
			}
			if !had {
				changes = append(changes, c)
			}
		case had:
			is.since, is.reported = now, true
			changes = append(changes, change{p, string(cause.VGPULicenseLost)})
		case !known:
			is.since = now
			changes = append(changes, change{Product: p})
		case !was.reported && now.Sub(was.since) >= grace:
			is.reported = true
			changes = append(changes, change{p, string(cause.VGPULicenseMissing)})
		case was.shortStatus() != p.shortStatus():
			changes = append(changes, change{Product: p})
		}
		after[key] = is
	}
	return after, changes
}
