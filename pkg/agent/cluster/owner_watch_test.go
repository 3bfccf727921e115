package cluster_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/kube"
)

const watchedSet = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"mine","namespace":"gpus","resourceVersion":"1"}}`

// A release that is uninstalled takes the rights of its agents with it: only a watch that has begun
// still reports that the DaemonSet is deleted.
func TestAWatchedOwnerIsGoneAlsoWithoutRights(t *testing.T) {
	var denied atomic.Bool
	watching, refused, deleted := make(chan struct{}, 8), make(chan struct{}, 8), make(chan struct{})
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case denied.Load():
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","code":403}`)
			refused <- struct{}{}
		case r.URL.Path == daemonSetPath:
			fmt.Fprint(w, watchedSet)
		case r.URL.Query().Get("watch") == "":
			fmt.Fprint(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[`+watchedSet+`]}`)
		default:
			_ = http.NewResponseController(w).Flush()
			watching <- struct{}{}
			select {
			case <-deleted:
				fmt.Fprintf(w, `{"type":"DELETED","object":%s}`+"\n", watchedSet)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
			}
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	client, err := kube.New(kube.Config{Server: s.URL, Dir: agenttest.Account(t, s), Node: "n", Agent: "test-agent", Log: slog.New(slog.DiscardHandler)})
	assert.NilError(t, err)
	owner := ownerOf(t, &cluster.API{Client: client}, "mine")
	owner.Watched = true
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { owner.Watch(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	<-watching
	if owner.Gone(ctx) {
		t.Error("it is gone while it is there")
	}
	denied.Store(true)
	if owner.Gone(ctx) {
		t.Error("it is gone when only the rights are")
	}
	// The watch reports the deletion after the agent has asked without rights.
	<-refused
	running.Go(func() {
		<-refused
		time.AfterFunc(100*time.Millisecond, func() { close(deleted) })
	})
	if !owner.Gone(ctx) {
		t.Error("it is not gone, although the watch reports the deletion soon")
	}
}

// The name of a DaemonSet may be wrong.
func TestAWatchedOwnerThatWasNeverSeenIsNotGone(t *testing.T) {
	owner := ownerOf(t, apiServer(t, answer{http.StatusNotFound, `{"kind": "Status", "code": 404}`}, nil), "mine")
	owner.Watched = true
	if owner.Gone(t.Context()) {
		t.Error("it is gone")
	}
}
