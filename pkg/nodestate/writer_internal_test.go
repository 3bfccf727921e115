package nodestate

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"outrigger.dev/pkg/kube/apitest"
)

const cordonedBy = "outrigger.dev/x-cordoned"

// writer returns a Writer of a Node at an API server.
func writer(t *testing.T, s *apitest.API) *Writer {
	t.Helper()
	return New(apitest.Client(t, s.Config, s.Name, "test-agent"), Config{Notes: []string{"why"}, Cordon: cordonedBy, Log: slog.New(slog.DiscardHandler)})
}

// read returns the Node, which the Writer then knows.
func read(t *testing.T, w *Writer) Node {
	t.Helper()
	n, err := w.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestWhatIsOlderIsNotSeen: the answer to a write is newer than what the watch delivers after it.
func TestWhatIsOlderIsNotSeen(t *testing.T) {
	w := newWriter(&cluster{}, Config{Log: discard()})
	for _, step := range []struct{ version, known string }{{"9", "9"}, {"10", "10"}, {"9", "10"}, {"10", "10"}, {"opaque", "opaque"}, {"1", "1"}} {
		w.See(Node{Version: step.version})
		if n, known := w.Node(); !known || n.Version != step.known {
			t.Errorf("after version %s, %q is known, want %q", step.version, n.Version, step.known)
		}
	}
}

// TestANoteThatChangesAllTheTime is written slower and slower, and a label at once.
func TestANoteThatChangesAllTheTime(t *testing.T) {
	now := time.Unix(0, 0)
	c := &cluster{late: true}
	w := newWriter(c, Config{manager: mine, Notes: []string{"why"}, Time: func() time.Time { return now }, Log: discard()})
	w.See(Node{})
	put := func(state string, why int) {
		t.Helper()
		d := Desired{Labels: map[string]string{"state": state}, Annotations: map[string]string{"why": fmt.Sprint(why)}}
		r, err := w.Put(t.Context(), d)
		if err != nil || r.Pending != nil {
			t.Fatalf("Put() = %+v, %v", r, err)
		}
		if n, _ := w.Node(); r.After == 0 && n.Annotations["why"] != fmt.Sprint(why) {
			t.Errorf("the note %d is neither written nor to be written", why)
		}
	}
	for i := range 3600 {
		put("waits", i)
		now = now.Add(time.Second)
	}
	if c.labels < 10 || c.labels > 25 {
		t.Errorf("a note was written %d times in an hour", c.labels)
	}
	for i, state := range []string{"works", "waits", "works"} {
		before := c.labels
		put(state, i)
		if c.labels != before+1 {
			t.Errorf("the state %s was not written at once", state)
		}
	}
}

func TestCordon(t *testing.T) {
	s := apitest.New(t, nil)
	w := writer(t, s)
	before := read(t, w)
	if w.Cordoned(before) {
		t.Fatal("a new node is cordoned")
	}
	if err := w.Cordon(t.Context(), before, `all "1g"`); err != nil {
		t.Fatal(err)
	}
	n, _ := w.Node()
	if !n.Unschedulable || !w.Cordoned(n) || n.Annotations[cordonedBy] != `all "1g"` {
		t.Errorf("the node is %+v", n)
	}
	for what, err := range map[string]error{"cordon": w.Cordon(t.Context(), before, "again"), "uncordon": w.Uncordon(t.Context(), Node{Version: before.Version, Annotations: n.Annotations})} {
		if err == nil || !strings.HasPrefix(err.Error(), what+" node "+s.Name+": ") {
			t.Errorf("%s of a node that has changed: %v", what, err)
		}
	}
	// Somebody else uncordons it, and cordons it for another reason.
	s.Update("kubectl", func(n *apitest.Node) { n.Unschedulable = false })
	if err := w.Uncordon(t.Context(), read(t, w)); err != nil {
		t.Error(err)
	}
	s.Update("kubectl", func(n *apitest.Node) { n.Unschedulable = true })
	if err := w.Uncordon(t.Context(), read(t, w)); err != nil {
		t.Error(err)
	}
	if n := read(t, w); !n.Unschedulable || w.Cordoned(n) {
		t.Errorf("the cordon of somebody else is gone: %+v", n)
	}
}

func TestWithdraw(t *testing.T) {
	all := Published{Metadata: true, Condition: true, Cordon: true}
	publish := func(t *testing.T, s *apitest.API) *Writer {
		t.Helper()
		w := writer(t, s)
		read(t, w)
		if _, err := w.Put(t.Context(), Desired{
			Labels: map[string]string{"state": "1"}, Annotations: map[string]string{"why": "x"},
			Condition: &Condition{Type: "GPUReady", Status: "True"},
		}); err != nil {
			t.Fatal(err)
		}
		if err := w.Cordon(t.Context(), read(t, w), "x"); err != nil {
			t.Fatal(err)
		}
		return writer(t, s) // of the process that comes next
	}
	t.Run("all goes, but what is others'", func(t *testing.T) {
		s := apitest.New(t, map[string]string{"zone": "a"})
		w := publish(t, s)
		s.Update("kubectl", func(n *apitest.Node) { n.Annotations["of.others"] = "1" })
		for range 2 { // the second time there is nothing to do
			if err := w.Withdraw(t.Context(), all); err != nil {
				t.Fatal(err)
			}
		}
		n := read(t, w)
		want(t, map[string]string{"zone": "a"}, n.Labels)
		want(t, map[string]string{"of.others": "1"}, n.Annotations)
		want(t, []Condition{ready}, n.Conditions)
		if n.Unschedulable {
			t.Error("it is cordoned")
		}
	})
	t.Run("a kubelet that writes meanwhile", func(t *testing.T) {
		s := apitest.New(t, nil)
		w := publish(t, s)
		s.Before("patch nodes", func() {
			s.Before("patch nodes", func() { s.Update("kubelet", func(n *apitest.Node) { n.Labels = map[string]string{"zone": "a"} }) })
		})
		if err := w.Withdraw(t.Context(), all); err != nil || read(t, w).Unschedulable {
			t.Errorf("Withdraw() = %v, and the node is %+v", err, read(t, w))
		}
	})
	t.Run("a server that is busy", func(t *testing.T) {
		s := apitest.New(t, nil)
		w := publish(t, s)
		s.Unavailable(3)
		if err := w.Withdraw(t.Context(), all); err != nil {
			t.Error(err)
		}
		if n := read(t, w); len(n.Labels) > 0 || len(n.Annotations) > 0 || n.Unschedulable || len(n.Conditions) != 1 {
			t.Errorf("the node is left as %+v", n)
		}
	})
	t.Run("no right", func(t *testing.T) {
		s := apitest.New(t, nil)
		w := publish(t, s)
		s.Forbid("patch nodes")
		err := w.Withdraw(t.Context(), all)
		if err == nil || !strings.Contains(err.Error(), "403") || !strings.Contains(err.Error(), "apply labels to") || !strings.Contains(err.Error(), "uncordon") {
			t.Errorf("Withdraw() = %v, want what is left", err)
		}
		if n := s.Requests()["patch nodes"]; n > 4 {
			t.Errorf("it asked %d times", n)
		}
	})
	for part, forbidden := range map[string]string{"labels": "patch nodes", "condition": "patch nodes/status", "cordon": "get nodes"} {
		t.Run("no right to the "+part+", and a busy server", func(t *testing.T) {
			s := apitest.New(t, nil)
			w := publish(t, s)
			s.Forbid(forbidden)
			s.Unavailable(4)
			err := w.Withdraw(t.Context(), all)
			if err == nil || !strings.Contains(err.Error(), "403") || strings.Contains(err.Error(), "503") {
				t.Errorf("Withdraw() = %v, want only the missing right", err)
			}
			n := s.Node()
			if got := len(n.Labels) > 0; got != (part == "labels") {
				t.Errorf("the labels are %v", n.Labels)
			}
			if got := len(n.Conditions) > 1; got != (part == "condition") {
				t.Errorf("the conditions are %v", n.Conditions)
			}
			if n.Unschedulable != (part != "condition") { // uncordoning needs both verbs on Nodes
				t.Errorf("unschedulable is %t", n.Unschedulable)
			}
		})
	}
	t.Run("the time is over", func(t *testing.T) {
		s := apitest.New(t, nil)
		w := publish(t, s)
		s.Answer("patch nodes", http.StatusInternalServerError, "no leader")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Withdraw(ctx, all); err == nil || !strings.Contains(err.Error(), "no leader") {
			t.Errorf("Withdraw() = %v", err)
		}
	})
	t.Run("the node is gone", func(t *testing.T) {
		s := apitest.New(t, nil)
		w := publish(t, s)
		s.Delete()
		if err := w.Withdraw(t.Context(), all); err != nil {
			t.Error(err)
		}
	})
}

// TestAFailureKeepsNothingElseFromBeingWritten: each write is one request.
func TestAFailureKeepsNothingElseFromBeingWritten(t *testing.T) {
	c := &cluster{late: true, fail: refused(http.StatusForbidden)}
	w := newWriter(c, Config{manager: mine, Log: discard()})
	w.See(Node{})
	_, err := w.Put(t.Context(), Desired{Labels: one, Condition: &Condition{Type: "GPUReady", Status: "False"}})
	if err == nil || c.labels != 1 || c.conditions != 1 {
		t.Errorf("Put() = %v after %d writes of labels and %d of conditions", err, c.labels, c.conditions)
	}
}
