package kube_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/client-go/rest"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
	"outrigger.dev/pkg/pace"
)

// seen hands on log lines.
type seen chan string

func (s seen) Write(p []byte) (int, error) {
	s <- string(p)
	return len(p), nil
}

// logged returns a client, and its log.
func logged(t *testing.T, rc *rest.Config, node string) (*kube.Client, seen) {
	t.Helper()
	lines := make(seen, 16)
	c, err := kube.New(kube.Config{
		Server: rc.Host, Dir: apitest.Account(t, rc), Node: node, Agent: "test-agent", Log: slog.New(slog.NewTextHandler(lines, nil)),
	})
	assert.NilError(t, err)
	return c, lines
}

func TestEvents(t *testing.T) {
	s := apitest.New(t, nil)
	events := kube.NewEvents(apitest.Client(t, s.Config, s.Name, "test-agent"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- events.Run(ctx) }()
	s.Unavailable(1)
	events.Report(kube.Event{Warning: true, Reason: "GPUUnhealthy", Message: strings.Repeat("x", 2000)})
	events.Report(kube.Event{Reason: "GPUHealthy", Message: "again"})
	type event struct {
		Type, Reason, Message, ReportingComponent string
		InvolvedObject                            struct{ Kind, Name, UID string }
	}
	var sent struct{ Items []event }
	for len(sent.Items) < 2 && pace.Pause(t.Context(), 10*time.Millisecond) {
		s.Do(http.MethodGet, "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name="+s.Name, nil, &sent)
	}
	first := slices.IndexFunc(sent.Items, func(e event) bool { return e.Reason == "GPUUnhealthy" })
	if e := sent.Items[max(first, 0)]; e.Type != "Warning" || len(e.Message) != 1024 || e.InvolvedObject != struct{ Kind, Name, UID string }{"Node", s.Name, s.Name} {
		t.Errorf("one event is %+v", e)
	}
	if e := sent.Items[1-max(first, 0)]; e.Type != "Normal" || e.Message != "again" || e.ReportingComponent != "test-agent" {
		t.Errorf("the other event is %+v", e)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
}

func TestReportNeverBlocks(t *testing.T) {
	events := kube.NewEvents(apitest.Client(t, apitest.New(t, nil).Config, "node1", "test-agent"))
	for range 1000 { // nothing runs that would take them
		events.Report(kube.Event{Reason: "GPUUnhealthy"})
	}
}

func TestNewRejects(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	log := slog.New(slog.DiscardHandler)
	if _, err := kube.New(kube.Config{Server: "https://api", Log: log}); err == nil || !strings.Contains(err.Error(), "NODE_NAME") {
		t.Errorf("New() without a node = %v", err)
	}
	if _, err := kube.New(kube.Config{Node: "n", Log: log}); !errors.Is(err, kube.ErrNotInCluster) {
		t.Errorf("New() outside of a pod = %v, want ErrNotInCluster", err)
	}
}

func TestWhatFailsIsNamed(t *testing.T) {
	s := apitest.New(t, nil)
	write := func(dir, name, content string) string {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		return dir
	}
	for name, tc := range map[string]struct{ dir, want string }{
		"no account":     {t.TempDir(), "is automountServiceAccountToken off?"},
		"an empty token": {write(apitest.Account(t, s.Config), "token", ""), "token"},
	} {
		_, err := kube.New(kube.Config{Server: s.Config.Host, Dir: tc.dir, Node: s.Name, Agent: "test-agent", Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	s.Config.BearerToken = "other"
	c, lines := logged(t, s.Config, s.Name)
	follow(t, c, kube.Query{Object: c.Node()})
	if line := <-lines; !strings.Contains(line, "401 Unauthorized: ") {
		t.Errorf("log line %q", line)
	}
}
