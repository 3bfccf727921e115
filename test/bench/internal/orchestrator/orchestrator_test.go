package orchestrator

import (
	"testing"
	"time"

	"outrigger.dev/test/cluster/cluster"
)

func TestTally(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(seconds int, verb, resource string) cluster.Request {
		return cluster.Request{Time: begin.Add(time.Duration(seconds) * time.Second), Verb: verb, Resource: resource}
	}
	got := countRequests([]cluster.Request{
		at(-1, "get", "nodes"), at(0, "get", "nodes"), at(1, "watch", "pods"), at(2, "patch", "daemonsets"),
		at(3, "update", "leases"), at(4, "get", "leases"), at(61, "patch", "daemonsets"),
	}, begin, begin.Add(time.Minute))
	if got.total != 3 || got.writes != 1 || got.leases != 2 {
		t.Errorf("counted %+v", got)
	}
	if want := "get 1, patch 1, watch 1, not counted: Leases 2"; got.String() != want {
		t.Errorf("text is %q, want %q", got, want)
	}
	if got := countRequests(nil, begin, begin); got.String() != "none" {
		t.Errorf("text is %q, want none", got)
	}
}

func TestMissing(t *testing.T) {
	set := func(desired, ready int, generation, observed int64) daemonSet {
		var s daemonSet
		s.Metadata.Generation, s.Status.ObservedGeneration = generation, observed
		s.Status.Desired, s.Status.Ready = desired, ready
		return s
	}
	for name, test := range map[string]struct {
		set        daemonSet
		neverReady int
		want       int
	}{
		"all ready":                         {set(10, 10, 1, 1), 0, 0},
		"one not ready":                     {set(10, 9, 1, 1), 0, 1},
		"those that can are ready":          {set(10, 8, 1, 1), 2, 0},
		"one that can is not ready":         {set(10, 7, 1, 1), 2, 1},
		"none wanted":                       {set(0, 0, 1, 1), 2, 0},
		"the controller has not looked":     {set(0, 0, 1, 0), 0, 1},
		"a change is not yet rolled out":    {set(10, 10, 2, 1), 0, 1},
		"fewer wanted than are never ready": {set(1, 0, 1, 1), 2, 0},
	} {
		if got := missing([]daemonSet{test.set}, test.neverReady); got != test.want {
			t.Errorf("%s: %d missing, want %d", name, got, test.want)
		}
	}
}

func TestLoad(t *testing.T) {
	before, err := parseLoad("cpu  100 0 100 800 0 0 0 0 50 0\ncpu0 1 2\n")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"cpu 200 0 200 800 0 0 0 0 50 0\n":   "the machine was 100 % busy, 25.0 % with the program: the machine is the bound",
		"cpu 200 0 100 1000 100 0 0 0 0 0\n": "the machine was 25 % busy, 12.5 % with the program",
		"cpu 100 0 100 800 0 0 0 0 50 0\n":   "no load measured",
	} {
		after, err := parseLoad(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := after.since(before, 500*time.Millisecond); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"", "cpu 1 2\n", "intr 1 2 3 4 5 6 7 8 9\n", "cpu a b c d e f g h i j\n"} {
		if _, err := parseLoad(text); err == nil {
			t.Errorf("%q is read without an error", text)
		}
	}
}
