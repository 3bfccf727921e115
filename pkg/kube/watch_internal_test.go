package kube

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// Watches that begin together must not end together, and come back at once.
func TestWatchesEndAtRandomTimes(t *testing.T) {
	const watches, minWatch = 8, 5 * time.Minute
	asked := make(chan string, watches)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("watch") {
			_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"1"}}`)
			return
		}
		asked <- r.URL.Query().Get("timeoutSeconds")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	c, err := New(Config{Server: server.URL, Dir: podDir(t, server), Node: "node1", Agent: "test-agent", Log: slog.New(slog.DiscardHandler)})
	assert.NilError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	for range watches {
		watching.Go(func() { Watch(ctx, c, Query{Object: c.Node()}, func([]struct{}) {}) })
	}
	times := map[time.Duration]bool{}
	for range watches {
		text := <-asked
		seconds, err := strconv.Atoi(text)
		lasts := time.Duration(seconds) * time.Second
		if err != nil || lasts < minWatch || lasts > 2*minWatch {
			t.Errorf("a watch asks for %q seconds, want %v to %v", text, minWatch, 2*minWatch)
		}
		times[lasts] = true
	}
	if len(times) < watches/2 {
		t.Errorf("%d watches end at %d times: %v", watches, len(times), times)
	}
}
