package agent_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
)

// TestProbesWhileNewWaits also has a reason that changes.
func TestProbesWhileNewWaits(t *testing.T) {
	for name, ends := range map[string]bool{"and then returns": true, "until the agent is stopped": false} {
		t.Run(name, func(t *testing.T) {
			next := make(chan struct{})
			app := testApp()
			create := app.New
			app.New = func(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
				agent.Waiting(c.Context, errors.New("waiting for a label"))
				<-next
				agent.Waiting(c.Context, errors.New("waiting for\nmore"))
				next <- struct{}{}
				select {
				case <-c.Context.Done():
					return nil, c.Context.Err()
				case <-next:
				}
				a, err := create(c, log)
				a.Parts[0].Ready = func() error {
					agent.Waiting(c.Context, errors.New("too late"))
					return nil
				}
				return a, err
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			logs := newBuffer()
			done := make(chan int)
			go func() { done <- agent.Exec(ctx, app, []string{"x", "--listen=127.0.0.1:0"}, io.Discard, logs) }()
			url := "http://" + logs.wait(t, "msg=serving address=")
			check := func(path string, want int, text string) {
				t.Helper()
				if code, body := fetch(t, url+path); code != want || !strings.Contains(body, text) {
					t.Errorf("%s answers %d %q, want %d %q", path, code, body, want, text)
				}
			}
			check("/readyz", 503, "waiting for a label\n")
			check("/healthz", 200, "ok\n")
			check("/metrics", 200, "outrigger_build_info")
			next <- struct{}{}
			<-next
			check("/readyz", 503, "waiting for; more\n")
			if ends {
				next <- struct{}{}
				url = "http://" + served(t, logs, 2)
				check("/readyz", 200, "ok\n")
				check("/healthz", 200, "nvml: ok\n")
			}
			cancel()
			if code := <-done; code != 0 {
				t.Errorf("want exit code 0, got %d: %s", code, logs)
			}
			logs.wait(t, "msg=stopped")
		})
	}
}

// served waits until the agent serves for the n-th time, and returns where.
func served(t *testing.T, logs watchedBuffer, n int) string {
	t.Helper()
	const says = "msg=serving address="
	agenttest.Poll(t, "the agent to serve", func() bool { return strings.Count(logs.String(), says) >= n })
	return strings.Fields(strings.Split(logs.String(), says)[n])[0]
}

func TestAnAgentWaitsWithoutItsPort(t *testing.T) {
	url, stop := serve(t)
	defer stop()
	app := testApp()
	app.New = func(c *cli.Context, _ *slog.Logger) (*agent.Agent, error) {
		agent.Waiting(c.Context, errors.New("waiting"))
		<-c.Context.Done()
		return nil, c.Context.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	logs := newBuffer()
	done := make(chan int)
	go func() {
		done <- agent.Exec(ctx, app, []string{"x", "--listen", strings.TrimPrefix(url, "http://")}, io.Discard, logs)
	}()
	logs.wait(t, "cannot serve probes while the agent waits")
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("want exit code 0, got %d: %s", code, logs)
	}
}
