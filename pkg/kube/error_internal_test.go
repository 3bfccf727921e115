package kube

import (
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // for the log of http.Server
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/pkg/pace"
)

// answers returns the error of a Get that an API server answers so.
func answers(t *testing.T, code int, retryAfter, body string) error {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		if strings.HasPrefix(body, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	c, err := New(Config{Server: server.URL, Dir: podDir(t, server), Node: "node1", Agent: "test-agent", Log: slog.New(slog.DiscardHandler)})
	assert.NilError(t, err)
	return c.Get(t.Context(), c.Node(), &struct{}{})
}

func TestAnswersThatAreErrors(t *testing.T) {
	status := func(message, details string) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"details":{%s}}`, message, details)
	}
	for name, tc := range map[string]struct {
		code     int
		body     string
		rejected bool
		after    time.Duration
		want     string
	}{
		"a path of no API": {
			404, "404 page not found\n", true, 0, "the API server answers 404 Not Found: the server could not find the requested resource",
		},
		"an object that is not there": {
			404, strings.Replace(status(`pods "a" not found`, `"name":"a","kind":"pods"`), `"details"`, `"code":404,"details"`, 1), true, 0,
			`the API server answers 404 Not Found: pods "a" not found`,
		},
		"nothing at all":           {403, "", true, 0, "the API server answers 403 Forbidden: "},
		"a proxy's page":           {502, "<html>bad gateway</html>", false, 0, "the API server answers 502 Bad Gateway: "},
		"a token that has expired": {401, status("Unauthorized", ""), false, 0, "the API server answers 401 Unauthorized: "},
		"too many requests":        {429, status("later", `"retryAfterSeconds":7`), false, 7 * time.Second, "the API server answers 429 Too Many Requests: later"},
		"a page of many lines":     {502, "<html>\r\n<p>\tbad\x07\n", false, 0, "the API server answers 502 Bad Gateway: "},
		"a conflict":               {409, status("changed", ""), false, 0, "the API server answers 409 Conflict: changed"},
		"a verb that no role has": {
			403, status(`nodes "n" is forbidden: User "a" cannot get resource "nodes"`, ""), true, 0,
			`the API server answers 403 Forbidden: nodes "n" is forbidden: User "a" cannot get resource "nodes" (the pod's service account has no role with this verb`,
		},
		"a node that is not there": {
			403, status(`User "a" cannot create resource "nodes"`, ""), true, 0,
			`the API server answers 403 Forbidden: User "a" cannot create resource "nodes" (there is no such node: is NODE_NAME right?)`,
		},
		"a long message": {
			503, status(strings.Repeat("x", 2000), ""), false, 0,
			"the API server answers 503 Service Unavailable: " + strings.Repeat("x", maxStatus-3) + "...",
		},
	} {
		t.Run(name, func(t *testing.T) {
			body := strings.Replace(tc.body, `"details"`, fmt.Sprintf(`"code":%d,"details"`, tc.code), 1)
			err := fmt.Errorf("do it: %w", answers(t, tc.code, "", body))
			if !strings.HasPrefix(err.Error(), "do it: "+tc.want) || strings.ContainsAny(err.Error(), "\n\r\x07") || len(err.Error()) > 2*maxStatus {
				t.Errorf("got  %q\nwant do it: %s", err, tc.want)
			}
			if isRejected(err) != tc.rejected {
				t.Errorf("rejected() = %t", !tc.rejected)
			}
			if got := RetryAfter(err); got != tc.after {
				t.Errorf("retry after %v, want %v", got, tc.after)
			}
		})
	}
	for _, err := range []error{nil, io.ErrUnexpectedEOF, http.ErrHandlerTimeout, errors.New("lost")} {
		if isRejected(err) {
			t.Errorf("rejected(%v) = true", err)
		}
	}
}

// An answer that never ends must not fill the memory, whatever its status.
func TestAConnectionErrorNamesTheAddressAndTheFix(t *testing.T) {
	gone, other := httptest.NewTLSServer(nil), httptest.NewUnstartedServer(nil)
	gone.Close()
	other.Config.ErrorLog = log.New(io.Discard, "", 0)
	other.StartTLS()
	defer other.Close()
	for cause, server := range map[string]string{
		"connection refused": gone.URL,
		"not localhost":      strings.Replace(other.URL, "127.0.0.1", "localhost", 1), // a certificate for another host
	} {
		c, err := New(Config{Server: server, Dir: podDir(t, other), Node: "node1", Agent: "test-agent", Log: slog.New(slog.DiscardHandler)})
		assert.NilError(t, err)
		for verb, err := range map[string]error{
			"get":    c.Get(t.Context(), c.Node(), &struct{}{}),
			"create": c.Create(t.Context(), c.Node(), struct{}{}),
		} {
			for _, want := range []string{server, cause, "does the API server run, can this node reach it"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: got %v, want %q", verb, err, want)
				}
			}
		}
	}
}

func TestAnAnswerIsLimited(t *testing.T) {
	for _, code := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		if err := answers(t, code, "", `{"a":"`+strings.Repeat("x", maxValue+1)); err == nil || !strings.Contains(err.Error(), "more than 4 MiB") {
			t.Errorf("answer %d that is too large: %v", code, err)
		}
	}
}

func TestRetriesAfterAnOutageComeSoon(t *testing.T) {
	status := func(code int32) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code}}
	}
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
	resp := func(after string) error { return answers(t, http.StatusTooManyRequests, after, "") }
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
