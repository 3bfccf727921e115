package kube

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/text"
)

// maxStatus is the longest message of an answer in an error.
const maxStatus = 1024

// explain returns an error of the API server with its status and, if the answer shows it, the fix.
// The message is one line of limited length. To the error of a connection, explain adds what to check.
func explain(err error) error {
	if _, away := errors.AsType[*url.Error](err); away && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w (does the API server run, can this node reach it, and is the kubeconfig or the token of this cluster?)", err)
	}
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is {
		return err
	}
	answer := *status
	code, message := int(answer.ErrStatus.Code), answer.ErrStatus.Message
	answer.ErrStatus.Message = fmt.Sprintf("the API server answers %d %s: %s%s", code, http.StatusText(code),
		text.Cut(text.Printable(strings.Join(strings.Fields(message), " ")), maxStatus), fixFor(code, message))
	return &answer
}

func fixFor(code int, message string) string {
	switch {
	case code != http.StatusForbidden:
		return ""
	case strings.Contains(message, `cannot create resource "nodes"`):
		// An apply would create an object that does not exist.
		return " (there is no such node: is NODE_NAME right?)"
	case strings.Contains(message, `User "`) && strings.Contains(message, " cannot "):
		return " (the pod's service account has no role with this verb: does the installed chart have the version of this program?)"
	default:
		return "" // an admission policy, whose message names the cause
	}
}

// isRejected reports whether the same request fails until a person makes a change, because of a
// missing permission, an admission policy, or an invalid value. Other failures are temporary: a
// token that is about to be renewed, a conflict with another writer, or an API server that is
// unavailable or overloaded.
func isRejected(err error) bool {
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is {
		return false
	}
	switch code := status.ErrStatus.Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}

const (
	// maxRetryAfter is the longest accepted delay that an API server asks for.
	maxRetryAfter = 5 * time.Minute
	// maxOutage is the longest delay after a failure that can end without a change by a person.
	// client-go has the same limit for watches.
	maxOutage = 30 * time.Second
)

// RetryIn returns the time to wait after err before the next attempt. It is the next delay of b.
// Unless the API server rejected the request, it is at most 30 s. If the API server asks for a
// longer delay, RetryIn returns the longer delay, but at most 5 minutes. It adds a random time of
// up to the delay of b, so that the agents of a cluster do not all retry at once.
func RetryIn(b *pace.Backoff, err error) time.Duration {
	least, most := Delays(err)
	in := b.Next()
	if most > 0 {
		in = min(in, most)
	}
	jitter := rand.N(max(in, 1)) //nolint:gosec // no secret depends on it
	return max(in, least) + jitter
}

// Delays has the form of the Delays of a reconcile.Config, for steps that send requests to the API
// server. After an error, the next step waits at least for the time of RetryAfter. It waits at most
// 30 s, unless the API server rejected the request.
func Delays(err error) (least, most time.Duration) {
	if !isRejected(err) {
		most = maxOutage
	}
	return RetryAfter(err), most
}

// RetryAfter returns the time that the API server asks to wait after err, before the request is
// repeated, and before any other request. It is 0 if the API server does not ask, and at most 5
// minutes.
func RetryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return max(0, min(time.Duration(seconds)*time.Second, maxRetryAfter))
}
