package kube_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/kubetest"
)

func client(t *testing.T, s *kubetest.Server, node string) *kube.Client {
	t.Helper()
	c, err := kube.New(kube.Config{
		Server: s.URL(), Dir: s.Dir(t), Node: node, Agent: "test-agent", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// seen hands on log lines.
type seen chan string

func (s seen) Write(p []byte) (int, error) {
	s <- string(p)
	return len(p), nil
}

func TestEvents(t *testing.T) {
	s := kubetest.New(t, "node1", nil)
	events := kube.NewEvents(client(t, s, "node1"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- events.Run(ctx) }()
	s.Unavailable(1)
	events.Report(kube.Event{Warning: true, Reason: "GPUUnhealthy", Message: strings.Repeat("x", 2000)})
	events.Report(kube.Event{Reason: "GPUHealthy", Message: "again"})
	first, second := <-s.Events, <-s.Events
	if first.Type != "Warning" || first.Reason != "GPUUnhealthy" || len(first.Message) != 1024 {
		t.Errorf("first event is %s %s of %d bytes", first.Type, first.Reason, len(first.Message))
	}
	if first.InvolvedObject.Kind != "Node" || first.InvolvedObject.Name != "node1" || first.InvolvedObject.UID != "node1" {
		t.Errorf("event is about %+v", first.InvolvedObject)
	}
	if second.Type != "Normal" || second.Message != "again" || second.ReportingComponent != "test-agent" {
		t.Errorf("second event is %+v", second)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
}

func TestReportNeverBlocks(t *testing.T) {
	s := kubetest.New(t, "node1", nil)
	events := kube.NewEvents(client(t, s, "node1"))
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
	s := kubetest.New(t, "node1", nil)
	write := func(dir, name, content string) string {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, tc := range map[string]struct{ dir, want string }{
		"no account":     {t.TempDir(), "is automountServiceAccountToken off?"},
		"an empty token": {write(s.Dir(t), "token", ""), "token"},
	} {
		_, err := kube.New(kube.Config{Server: s.URL(), Dir: tc.dir, Node: "node1", Agent: "test-agent", Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	lines := make(seen, 8)
	c, err := kube.New(kube.Config{
		Server: s.URL(), Dir: write(s.Dir(t), "token", "other"), Node: "node1", Agent: "test-agent", Log: slog.New(slog.NewTextHandler(lines, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	follow(t, c, kube.Query{Object: c.Node()})
	if line := <-lines; !strings.Contains(line, "401 Unauthorized: ") {
		t.Errorf("log line %q", line)
	}
}

func TestDeleted(t *testing.T) {
	s := kubetest.New(t, "node1", nil)
	c := client(t, s, "node1")
	deleted := func(want bool) {
		t.Helper()
		if got, err := c.Deleted(t.Context(), c.Node()); got != want || err != nil {
			t.Errorf("Deleted() = %t, %v, want %t", got, err, want)
		}
	}
	deleted(false)
	s.Delete()
	deleted(true)
	s.Close()
	if got, err := c.Deleted(t.Context(), c.Node()); got || err == nil {
		t.Errorf("without an API server, Deleted() = %t, %v, want an error", got, err)
	}
}
