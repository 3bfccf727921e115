package stack

import (
	"time"

	"outrigger.dev/test/cluster/cluster"
)

// Requests returns the requests of a service account of Namespace since a time, in the order of the
// responses.
func (s *Stack) Requests(account string, since time.Time) ([]cluster.Request, error) {
	return s.Cluster.Requests(Namespace, account, since)
}
