package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
)

// fake is an API server with one Node, in the process: no connection stops the clock of a
// bubble.
type fake struct {
	mu    sync.Mutex
	label string
	// outage is how requests end, nil if they are answered.
	outage func() (*http.Response, error)
	// watches are the open ones.
	watches []*io.PipeWriter
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	outage := f.outage
	f.mu.Unlock()
	if outage != nil {
		return outage() // it may take time
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {asJSON}}, Request: r}
	if !r.URL.Query().Has("watch") {
		answer.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(
			`{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"node1","labels":{"a":%q}}}]}`, f.label)))
		return answer, nil
	}
	body, events := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = events.CloseWithError(r.Context().Err()) })
	f.watches = append(f.watches, events)
	answer.Body = body
	return answer, nil
}

// fail makes all requests end so, and ends the watches.
func (f *fake) fail(outage func() (*http.Response, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outage = outage
	for _, w := range f.watches {
		_ = w.CloseWithError(io.ErrUnexpectedEOF)
	}
	f.watches = nil
}

// recover makes the server answer again, with a new label of the Node.
func (f *fake) recover(label string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outage, f.label = nil, label
}

// TestAWatchIsBackAMinuteAfterALongOutage has a clock of its own, so ten minutes pass at
// once.
func TestAWatchIsBackAMinuteAfterALongOutage(t *testing.T) {
	// One of them waits for a time after the last error, which was outside of the bubble.
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	for name, outage := range map[string]func() (*http.Response, error){
		"nobody listens": func() (*http.Response, error) { return nil, errors.New("connection refused") },
		"nobody answers": func() (*http.Response, error) {
			<-time.After(connectLimit)
			return nil, context.DeadlineExceeded
		},
		"the API server is unavailable": func() (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(strings.NewReader("not now"))}, nil
		},
		"the API server has too many requests": func() (*http.Response, error) {
			return &http.Response{
				StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}, Body: io.NopCloser(strings.NewReader("later")),
			}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &fake{label: "before"}
				c, err := connect(Config{Node: "node1", Log: slog.New(slog.DiscardHandler)}, &rest.Config{Host: "http://api", Transport: server})
				assert.NilError(t, err)
				type node struct {
					Metadata struct {
						Labels map[string]string `json:"labels"`
					} `json:"metadata"`
				}
				labels := make(chan string, 8)
				ctx, cancel := context.WithCancel(t.Context())
				var watching sync.WaitGroup
				defer watching.Wait()
				defer cancel()
				watching.Go(func() {
					Watch(ctx, c, Query{Object: c.Node()}, func(nodes []node) { labels <- nodes[0].Metadata.Labels["a"] })
				})
				if got := <-labels; got != "before" {
					t.Errorf("the label is %q", got)
				}
				synctest.Wait() // it watches
				server.fail(outage)
				<-time.After(time.Minute)
				if c.Failing() == nil {
					t.Error("the watch works during the outage")
				}
				<-time.After(9 * time.Minute)
				if c.Failing() == nil || len(labels) > 0 {
					t.Error("the last state is not kept during the outage")
				}
				server.recover("after")
				back := time.Now()
				if got := <-labels; got != "after" {
					t.Errorf("the label is %q", got)
				}
				if took := time.Since(back); took > time.Minute {
					t.Errorf("the change was seen %v after the outage, want a minute at most", took)
				}
				synctest.Wait()
				assert.NilError(t, c.Failing(), "after the outage")
			})
		})
	}
}
