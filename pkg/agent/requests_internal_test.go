package agent

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"
)

func TestRequestsOfAPeerAreCounted(t *testing.T) {
	l, now := newRequestLimit(), time.Now()
	spend := func(peer string) (n int) {
		for range 2 * requestBurst {
			if l.may(peer, now) {
				n++
			}
		}
		return n
	}
	if a, b := spend("a"), spend("b"); a != requestBurst || b != requestBurst {
		t.Errorf("%d and %d requests, want %d of each peer", a, b, requestBurst)
	}
	now = now.Add(3 * requestEvery)
	if a := spend("a"); a != 3 {
		t.Errorf("%d requests later, want 3", a)
	}
	for i := range 10 * maxPeers {
		l.may(strconv.Itoa(i), now)
		if len(l.peers) > maxPeers {
			t.Fatalf("%d peers are counted", len(l.peers))
		}
	}
}

func TestAPeerThatAsksAllTheTime(t *testing.T) {
	h := newRequestLimit().handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func(peer string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.RemoteAddr = peer + ":1234"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	answer := ask("192.0.2.1")
	for range 1_000_000 { // many more than a machine can send at the allowed rate
		if answer = ask("192.0.2.1"); answer.Code != http.StatusOK {
			break
		}
	}
	if answer.Code != http.StatusTooManyRequests || answer.Header().Get("Retry-After") == "" {
		t.Errorf("the answer is %d with Retry-After %q, want 429 with a time", answer.Code, answer.Header().Get("Retry-After"))
	}
	if code := ask("192.0.2.2").Code; code != http.StatusOK {
		t.Errorf("another peer gets %d", code)
	}
}
