package kube

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
)

// server answers one request after the other: with a status, or an error.
type server struct {
	status int
	err    error
	takes  time.Duration
}

func (s *server) RoundTrip(*http.Request) (*http.Response, error) {
	<-time.After(s.takes)
	if s.err != nil {
		return nil, s.err
	}
	return &http.Response{StatusCode: s.status, Status: http.StatusText(s.status), Body: http.NoBody}, nil
}

func TestFollower(t *testing.T) {
	for name, tc := range map[string]struct {
		path string
		server
		// after is how long after the request it is reported, less for never.
		after time.Duration
	}{
		"an answer":                        {"/apis/resource.k8s.io/v1/resourceslices", server{status: 200}, -1},
		"a conflict":                       {"/apis/resource.k8s.io/v1/resourceslices/a", server{status: 409}, -1},
		"a server that is away":            {"/apis/resource.k8s.io/v1/resourceslices", server{err: errors.New("refused")}, 5 * time.Second},
		"a server that hangs":              {"/apis/resource.k8s.io/v1/resourceslices", server{err: errors.New("timeout"), takes: 10 * time.Second}, 10 * time.Second},
		"a right that is missing":          {"/apis/resource.k8s.io/v1/resourceslices/a", server{status: 403}, 5 * time.Second},
		"an overloaded server":             {"/apis/resource.k8s.io/v1/resourceslices", server{status: 503}, 5 * time.Second},
		"a request that was given up":      {"/apis/resource.k8s.io/v1/resourceslices", server{err: context.Canceled}, -1},
		"a failure about another resource": {"/apis/resource.k8s.io/v1/namespaces/resourceslice/resourceclaims/resourceslices2", server{status: 500}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var failures Failures
				f := follower{next: &tc.server, path: "/resourceslices", failures: &failures}
				ask := func() {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api"+tc.path, nil)
					assert.NilError(t, err)
					resp, err := f.RoundTrip(r)
					if err == nil {
						_ = resp.Body.Close()
					}
				}
				begun := time.Now()
				ask()
				reported := time.Duration(-1)
				for ; time.Since(begun) < time.Minute && reported < 0; <-time.After(time.Second) {
					if failures.Err() != nil {
						reported = time.Since(begun)
					}
				}
				if reported != tc.after {
					t.Errorf("reported after %v, want %v: %v", reported, tc.after, failures.Err())
				}
				tc.server = server{status: 200}
				if ask(); failures.Err() != nil {
					t.Errorf("after an answer: %v", failures.Err())
				}
			})
		})
	}
}
