package read_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/model"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestListsForPodsThatWait has pods that wait for their containers. Their Events are found with one list for each namespace, however
// many pods wait.
func TestListsForPodsThatWait(t *testing.T) {
	r := newRig(t)
	event := func(name, kind, of, reason string) {
		r.CreateTyped("v1", "Event", &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Type: corev1.EventTypeWarning, Reason: reason, Message: "x",
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: ns, Name: of},
		})
	}
	event("of-set", "DaemonSet", "nvidia-driver-loader", "FailedCreate")
	event("of-another", "Pod", "loader-1", "BackOff")

	var mu sync.Mutex
	var lists []string
	rc := rest.CopyConfig(r.REST)
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(q *http.Request) (*http.Response, error) {
			if what, is := strings.CutPrefix(q.URL.Path, "/api/v1/namespaces/"+ns+"/"); is && q.Method == http.MethodGet && !strings.Contains(what, "/") {
				mu.Lock()
				defer mu.Unlock()
				lists = append(lists, what+" "+q.URL.Query().Get("fieldSelector"))
			}
			return next.RoundTrip(q)
		})
	})
	client, err := cluster.New(rc)
	assert.NilError(t, err)
	for i := range 5 {
		name := fmt.Sprintf("waits-%d", i)
		r.loader(ns, name, r.owner(ns, "nvidia-driver-loader"))
		r.Patch(model.Ref{APIVersion: "v1", Kind: "Pod", Namespace: ns, Name: name}, "status", map[string]any{"status": map[string]any{"phase": "Pending"}})
		event("of-"+name, "Pod", name, "FailedMount")
	}
	for _, target := range []facts.Target{{}, {Node: node}} {
		lists = nil
		var got []string
		for _, e := range r.read(client, target).Events {
			got = append(got, e.Name)
		}
		slices.Sort(got)
		assert.DeepEqual(t, got, []string{"of-set", "of-waits-0", "of-waits-1", "of-waits-2", "of-waits-3", "of-waits-4"})
		slices.Sort(lists)
		assert.DeepEqual(t, slices.Compact(lists), []string{"events type=Warning"})
	}
}
