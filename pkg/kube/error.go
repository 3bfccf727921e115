package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/text"
)

const (
	// maxFailure is how much of the header or the body of a failure is read at most.
	maxFailure = 16 << 10
	// maxStatus and maxPage are the longest messages of errors: that of a Status, and
	// that of anything else, for example the HTML page of a proxy.
	maxStatus = 1024
	maxPage   = 256
)

// StatusError is a failure with which the API server answers a request, or which it
// sends in a watch.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// Message explains the failure to people. It is cut to 1024 bytes.
	Message string
	// Name is the name of the object that the failure concerns. It is empty if the API
	// server does not serve the path of the request.
	Name string
	// RetryAfter is the time after which the API server asks the client to try again.
	RetryAfter time.Duration
}

// status is the Status object that the API server sends for a failure (API
// reference, Status).
type status struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Details struct {
		Name              string `json:"name"`
		RetryAfterSeconds int    `json:"retryAfterSeconds"`
	} `json:"details"`
}

func (s status) err() *StatusError {
	return &StatusError{
		Code: s.Code, Message: text.Cut(s.Message, maxStatus), Name: s.Details.Name,
		RetryAfter: time.Duration(s.Details.RetryAfterSeconds) * time.Second,
	}
}

// newStatusError reads a failure. If it is not a Status, for example because a proxy
// sent it, the message is the body.
func newStatusError(resp *http.Response) *StatusError {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxFailure)) // a part suffices
	var s status
	if json.Unmarshal(data, &s) != nil || s.Message == "" {
		s = status{Message: text.Cut(text.Printable(strings.Join(strings.Fields(string(data)), " ")), maxPage)}
	}
	e := s.err()
	e.Code = resp.StatusCode
	after := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(after); err == nil { // of a proxy
		e.RetryAfter = time.Until(at)
	}
	return e
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the API server answers %d %s: %s%s", e.Code, http.StatusText(e.Code), e.Message, e.fix())
}

// fix returns the fix, if it follows from the answer.
func (e *StatusError) fix() string {
	switch {
	case e.Code != http.StatusForbidden:
		return ""
	case strings.Contains(e.Message, `cannot create resource "nodes"`):
		// An apply to an object that does not exist creates it.
		return " (there is no such node: is NODE_NAME right?)"
	case strings.Contains(e.Message, `User "`) && strings.Contains(e.Message, " cannot "):
		return " (no role of the pod's service account allows that verb: does the chart that is installed fit this version?)"
	default:
		return "" // an admission policy, whose message names the cause
	}
}

// rejected reports whether the same request fails until somebody changes something:
// a missing permission, an admission policy, an invalid value. Other failures are
// temporary: a token that is about to be renewed, a conflict with another writer, or
// an API server that is unavailable or overloaded.
func rejected(err error) bool {
	status, is := errors.AsType[*StatusError](err)
	if !is {
		return false
	}
	switch status.Code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return status.Code >= 400 && status.Code < 500
	}
}

const (
	// maxRetryAfter is the longest time that an API server can ask for.
	maxRetryAfter = 5 * time.Minute
	// maxOutage is the longest delay after a failure that ends without a change by
	// people. client-go has the same limit for watches.
	maxOutage = 30 * time.Second
)

// RetryIn returns how long to wait after err before the next attempt. That is the
// next delay of b, but at most 30 s unless the API server rejected the request, or the
// delay that the API server asks for if that is longer, but at most 5 minutes of it.
// RetryIn adds a random time of up to the delay of b, so that the agents of a cluster
// do not all retry at once.
func RetryIn(b *pace.Backoff, err error) time.Duration {
	in := b.Next()
	if !rejected(err) {
		in = min(in, maxOutage)
	}
	jitter := rand.N(max(in, 1)) //nolint:gosec // no secret depends on it
	return max(in, RetryAfter(err)) + jitter
}

// RetryAfter returns how long the API server asks to wait after err, also before another
// request: 0 if it does not ask, and at most 5 minutes.
func RetryAfter(err error) time.Duration {
	status, is := errors.AsType[*StatusError](err)
	if !is {
		return 0
	}
	return max(0, min(status.RetryAfter, maxRetryAfter))
}
