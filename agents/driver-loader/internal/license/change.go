package license

import (
	"fmt"
	"time"

	"outrigger.dev/pkg/cause"
)

// ReasonLicensed is the reason of the Event for a license that was missing and is available now.
const ReasonLicensed = "VGPULicensed"

// grace is the time after which a missing license is reported. The license client asks its server
// within a minute after it starts. NVIDIA's driver restricts the GPU after 20 minutes.
const grace = 5 * time.Minute

// state is the last observed state of the license of a GPU.
type state struct {
	Product
	// since is the time when the license was first missing; zero while the GPU is licensed.
	since time.Time
	// reported is set if an Event has reported the missing license.
	reported bool
}

// change is a change of a license to report.
type change struct {
	Product
	// reason is the reason of the Event, "" for no Event.
	reason string
}

// fix is the fix for a missing license.
const fix = "see the log of nvidia-gridd; check gridd.conf, the token, the clock of the node, and the connection to the license server"

// message returns the text of the Event.
func (c change) message() string {
	message := fmt.Sprintf("GPU %s: %s: %s", c.GPU, c.Name, c.Status)
	if !c.Licensed() {
		message += ". Without a license, the GPU becomes slow: " + fix
	}
	return message
}

// next returns the states after products were observed, and the changes to report.
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
