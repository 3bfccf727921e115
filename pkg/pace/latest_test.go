package pace_test

import (
	"sync"
	"testing"

	"outrigger.dev/pkg/pace"
)

func TestLatestDeliversOnlyTheNewestValue(t *testing.T) {
	l := pace.NewLatest[int]()
	for i := range 3 {
		l.Put(i)
	}
	if got := <-l; got != 2 {
		t.Errorf("received %d, want 2", got)
	}
	select {
	case v := <-l:
		t.Errorf("received %d a second time", v)
	default:
	}
}

func TestLatestTakesConcurrentSenders(t *testing.T) {
	const senders, each = 8, 1000
	l := pace.NewLatest[[2]int]()
	var sending sync.WaitGroup
	for s := range senders {
		sending.Go(func() {
			for i := range each {
				l.Put([2]int{s, i})
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		sending.Wait()
	}()
	var last [senders]int
	take := func(v [2]int) {
		if v[1] < last[v[0]] {
			t.Errorf("sender %d: received %d after %d", v[0], v[1], last[v[0]])
		}
		last[v[0]] = v[1]
	}
	for {
		select {
		case v := <-l:
			take(v)
			continue
		case <-done:
		}
		break
	}
	select {
	case v := <-l:
		take(v)
	default:
	}
	for _, i := range last {
		if i == each-1 {
			return
		}
	}
	t.Errorf("the newest values are %v, want the last one of a sender among them", last)
}
