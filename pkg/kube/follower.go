package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Follow returns the failures of all requests for a resource, such as "resourceslices", by clients
// made from rc. It is for programs whose libraries watch and write the resource.
func Follow(rc *rest.Config, resource string) *Failures {
	failures := &Failures{}
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return follower{next: next, path: "/" + resource, failures: failures}
	})
	return failures
}

// follower records the results of the requests for a resource. client-go notices a connection to a
// hanging server within 45 s (see package kube), and retries failed requests.
type follower struct {
	next http.RoundTripper
	// path is a part of the URL paths of the resource.
	path     string
	failures *Failures
}

// RoundTrip sends a request.
func (f follower) RoundTrip(r *http.Request) (*http.Response, error) {
	begun := time.Now()
	resp, err := f.next.RoundTrip(r)
	if !strings.Contains(r.URL.Path+"/", f.path+"/") {
		return resp, err
	}
	why := err
	if err == nil && isRefused(resp.StatusCode) {
		why = fmt.Errorf("%s %s: the API server answers %s", r.Method, r.URL.Path, resp.Status)
	}
	if !errors.Is(err, context.Canceled) { // nobody waits for the answer
		f.failures.Set(f.path, why, begun)
	}
	return resp, err
}

// isRefused reports whether the status means that the server does not process requests of this
// client. Other errors, such as a conflict, concern one request, which the client has to change.
func isRefused(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	default:
		return status >= http.StatusInternalServerError
	}
}
