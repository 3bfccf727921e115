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
)

// maxFailure bounds what is read of the body of a failure.
const maxFailure = 16 << 10

// StatusError is a failure that the API server answers, or sends in a watch.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// Message explains the failure to people.
	Message string
	// Name is that of the object that the failure is about. It is empty for a path
	// that is not served.
	Name string
	// RetryAfter is the time for which the API server asks to be left alone.
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
		Code: s.Code, Message: s.Message, Name: s.Details.Name,
		RetryAfter: time.Duration(s.Details.RetryAfterSeconds) * time.Second,
	}
}

// newStatusError reads a failure. A proxy between may have sent it: then the
// message is the body, whatever that is.
func newStatusError(resp *http.Response) *StatusError {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxFailure)) // a part will do
	var s status
	if json.Unmarshal(data, &s) != nil || s.Message == "" {
		s = status{Message: strings.TrimSpace(string(data))}
	}
	e := s.err()
	e.Code = resp.StatusCode
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the API server answers %d %s: %s%s", e.Code, http.StatusText(e.Code), e.Message, e.fix())
}

// fix says what to do, where that follows from the answer.
func (e *StatusError) fix() string {
	switch {
	case e.Code != http.StatusForbidden:
		return ""
	case strings.Contains(e.Message, `cannot create resource "nodes"`):
		// To apply to an object that does not exist is to create it.
		return " (there is no such node: is NODE_NAME right?)"
	case strings.Contains(e.Message, `User "`) && strings.Contains(e.Message, " cannot "):
		return " (no role of the pod's service account allows that verb: does the chart that is installed fit this version?)"
	default:
		return "" // an admission policy, which has its own words
	}
}

// rejected reports whether the same request fails until somebody changes
// something: a right that is missing, an admission policy, an invalid value. Other
// failures pass: a token that is about to be renewed, a conflict with another
// writer, an API server that is away or overloaded.
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

// maxRetryAfter bounds what an API server may ask for.
const maxRetryAfter = 5 * time.Minute

// RetryIn returns when to try again after err: after the next time of b, or after
// the time that the API server asks for, if that is longer; and up to as much
// again of b at random, so that the agents of a cluster do not return together.
func RetryIn(b *pace.Backoff, err error) time.Duration {
	in := b.Next()
	jitter := rand.N(max(in, 1)) //nolint:gosec // no secret depends on it
	if status, is := errors.AsType[*StatusError](err); is {
		in = max(in, min(status.RetryAfter, maxRetryAfter))
	}
	return in + jitter
}
