package stack

import (
	"time"

	"outrigger.dev/test/cluster/cluster"
)

// Requests returns what a service account of Namespace has asked the API server for since
// a time, in the order of the answers.
func (s *Stack) Requests(account string, since time.Time) ([]cluster.Request, error) {
	return s.Cluster.Requests(Namespace, account, since)
}
