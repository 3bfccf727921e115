package kube

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestWhatAnAnswerMeans(t *testing.T) {
	for name, tc := range map[string]struct {
		code              int
		body              string
		refused, unserved bool
		want              string
	}{
		"a path of no API": {
			404, "404 page not found\n", true, true, "the API server answers 404 Not Found: 404 page not found",
		},
		"a kind that its API does not have": {
			404, `{"kind":"Status","message":"the server could not find the requested resource","details":{}}`, true, true,
			"the API server answers 404 Not Found: the server could not find the requested resource",
		},
		"an object that is not there": {
			404, `{"kind":"Status","message":"pods \"a\" not found","details":{"name":"a","kind":"pods"}}`, true, false,
			`the API server answers 404 Not Found: pods "a" not found`,
		},
		"nothing at all":    {401, "", true, false, "the API server answers 401 Unauthorized: "},
		"a proxy's page":    {502, "<html>bad gateway</html>", false, false, "the API server answers 502 Bad Gateway: <html>bad gateway</html>"},
		"too many requests": {429, `{"message":"later"}`, false, false, "the API server answers 429 Too Many Requests: later"},
		"a conflict":        {409, `{"message":"changed"}`, false, false, "the API server answers 409 Conflict: changed"},
	} {
		t.Run(name, func(t *testing.T) {
			err := fmt.Errorf("do it: %w", newStatusError(tc.code, strings.NewReader(tc.body)))
			if err.Error() != "do it: "+tc.want {
				t.Errorf("got  %v\nwant do it: %s", err, tc.want)
			}
			if Refused(err) != tc.refused || unserved(err) != tc.unserved {
				t.Errorf("refused %t, unserved %t", Refused(err), unserved(err))
			}
		})
	}
	for _, err := range []error{nil, io.ErrUnexpectedEOF, http.ErrHandlerTimeout, errors.New("lost")} {
		if Refused(err) || unserved(err) {
			t.Errorf("%v is an answer", err)
		}
	}
}
