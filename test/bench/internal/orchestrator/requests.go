package orchestrator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"outrigger.dev/test/cluster/cluster"
)

// count has numbers of requests. Requests for Leases are counted separately.
type count struct {
	total, writes int
	// verbs has the number of requests by verb.
	verbs map[string]int
	// leases is the number of requests for Leases.
	leases int
}

// countRequests counts the requests that the API server received from begin to end.
func countRequests(requests []cluster.Request, begin, end time.Time) count {
	c := count{verbs: map[string]int{}}
	for _, r := range requests {
		switch {
		case r.Time.Before(begin) || r.Time.After(end):
		case r.Resource == "leases":
			c.leases++
		default:
			c.total++
			c.verbs[r.Verb]++
			if r.Writes() {
				c.writes++
			}
		}
	}
	return c
}

func (c count) String() string {
	var words []string
	for _, verb := range slices.Sorted(maps.Keys(c.verbs)) {
		words = append(words, fmt.Sprintf("%s %d", verb, c.verbs[verb]))
	}
	if c.leases > 0 {
		words = append(words, fmt.Sprintf("not counted: Leases %d", c.leases))
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
