package agent

import (
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
