package kube

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"outrigger.dev/pkg/pace"
)

func TestStatusErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		code     int
		body     string
		rejected bool
		after    time.Duration
		want     string
	}{
		"a path of no API": {
			404, "404 page not found\n", true, 0, "the API server answers 404 Not Found: 404 page not found",
		},
		"a kind that its API does not have": {
			404, `{"kind":"Status","message":"the server could not find the requested resource","details":{}}`, true, 0,
			"the API server answers 404 Not Found: the server could not find the requested resource",
		},
		"an object that is not there": {
			404, `{"kind":"Status","message":"pods \"a\" not found","details":{"name":"a","kind":"pods"}}`, true, 0,
			`the API server answers 404 Not Found: pods "a" not found`,
		},
		"nothing at all":           {403, "", true, 0, "the API server answers 403 Forbidden: "},
		"a proxy's page":           {502, "<html>bad gateway</html>", false, 0, "the API server answers 502 Bad Gateway: <html>bad gateway</html>"},
		"a token that has expired": {401, `{"message":"Unauthorized"}`, false, 0, "the API server answers 401 Unauthorized: Unauthorized"},
		"a time-out":               {408, `{"message":"slow"}`, false, 0, "the API server answers 408 Request Timeout: slow"},
		"too many requests":        {429, `{"message":"later","details":{"retryAfterSeconds":7}}`, false, 7 * time.Second, "the API server answers 429 Too Many Requests: later"},
		"a page of many lines":     {502, "<html>\r\n<p>\tbad\x07\n", false, 0, "the API server answers 502 Bad Gateway: <html> <p> bad?"},
		"a long page": {
			503, strings.Repeat("x", 20<<10), false, 0, "the API server answers 503 Service Unavailable: " + strings.Repeat("x", maxPage-3) + "...",
		},
		"a long message": {
			503, `{"message":"` + strings.Repeat("x", 2000) + `"}`, false, 0,
			"the API server answers 503 Service Unavailable: " + strings.Repeat("x", maxStatus-3) + "...",
		},
		"a conflict": {409, `{"message":"changed"}`, false, 0, "the API server answers 409 Conflict: changed"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := &http.Response{StatusCode: tc.code, Body: io.NopCloser(strings.NewReader(tc.body))}
			err := fmt.Errorf("do it: %w", newStatusError(resp))
			if err.Error() != "do it: "+tc.want {
				t.Errorf("got  %v\nwant do it: %s", err, tc.want)
			}
			if rejected(err) != tc.rejected {
				t.Errorf("rejected() = %t", !tc.rejected)
			}
			var status *StatusError
			if !errors.As(err, &status) || status.RetryAfter != tc.after {
				t.Errorf("error %+v, want to retry after %v", status, tc.after)
			}
		})
	}
	for _, err := range []error{nil, io.ErrUnexpectedEOF, http.ErrHandlerTimeout, errors.New("lost")} {
		if rejected(err) {
			t.Errorf("rejected(%v) = true", err)
		}
	}
}

func TestRetriesAfterAnOutageComeSoon(t *testing.T) {
	status := func(code int) error { return &StatusError{Code: code} }
	for name, tc := range map[string]struct {
		err error
		max time.Duration
	}{
		"a connection that fails": {io.ErrUnexpectedEOF, 2 * maxOutage},
		"an overloaded server":    {status(http.StatusServiceUnavailable), 2 * maxOutage},
		"a request that is wrong": {status(http.StatusUnprocessableEntity), 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			longest := time.Duration(0)
			for range 100 {
				longest = max(longest, RetryIn(&pace.Backoff{First: time.Hour, Most: time.Hour}, tc.err))
			}
			if longest < tc.max/2 || longest >= tc.max {
				t.Errorf("retry in up to %v, want between %v and %v", longest, tc.max/2, tc.max)
			}
		})
	}
}

func TestRetriesAreSpreadAndHonourRetryAfter(t *testing.T) {
	resp := func(after string) error {
		return newStatusError(&http.Response{
			StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {after}}, Body: http.NoBody,
		})
	}
	for name, tc := range map[string]struct {
		err      error
		min, max time.Duration
	}{
		"a failure":                        {io.ErrUnexpectedEOF, 4 * time.Second, 8 * time.Second},
		"no failure":                       {nil, 4 * time.Second, 8 * time.Second},
		"a server that asks for more time": {resp("30"), 30 * time.Second, 34 * time.Second},
		"a proxy that names the time":      {resp(time.Now().Add(31 * time.Second).UTC().Format(http.TimeFormat)), 20 * time.Second, 35 * time.Second},
		"a time that is over":              {resp(time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)), 4 * time.Second, 8 * time.Second},
		"a server that asks for less time": {resp("1"), 4 * time.Second, 8 * time.Second},
		"a server that asks for days":      {resp("86400"), maxRetryAfter, maxRetryAfter + 4*time.Second},
		"a server that asks for nonsense":  {resp("-9"), 4 * time.Second, 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[time.Duration]bool{}
			for range 100 {
				b := pace.Backoff{First: 4 * time.Second, Most: time.Minute}
				in := RetryIn(&b, tc.err)
				if in < tc.min || in >= tc.max {
					t.Fatalf("retry in %v, want %v to %v", in, tc.min, tc.max)
				}
				seen[in] = true
			}
			if len(seen) < 50 {
				t.Errorf("%d different times in 100, want most to differ", len(seen))
			}
		})
	}
}
