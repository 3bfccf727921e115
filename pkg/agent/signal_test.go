package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
)

func TestSignalsEndTheProcess(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProcess(t, "run", "--listen", "127.0.0.1:0")
			p.line("running")
			p.signal(sig)
			if code := p.end(); code != 0 {
				t.Errorf("want exit code 0, got %d", code)
			}
			p.logs.wait(t, "msg=stopped")
		})
	}
}

// TestHungAgentIsEnded: Run, or New, does not heed its context.
func TestHungAgentIsEnded(t *testing.T) {
	for mode, want := range map[string]string{
		"hang":              `msg="not stopped in time, exiting anyway" limit=1.8s hanging=[first]`,
		"hang with a limit": `msg="not stopped in time, exiting anyway" limit=10ms hanging=[first]`,
		"hang in New":       "test-agent: not stopped within 1.8s, exiting anyway",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := startProcess(t, mode)
			p.line("running")
			p.signal(syscall.SIGTERM)
			if code := p.end(); code != 1 {
				t.Errorf("want exit code 1, got %d", code)
			}
			logs := p.logs.String()
			for _, part := range []string{want, "goroutine ", "main_test.go"} {
				if !strings.Contains(logs, part) {
					t.Errorf("want %q in:\n%s", part, logs)
				}
			}
		})
	}
}

// TestASignalCancelsACommand has a command whose error wraps the error of its context.
func TestASignalCancelsACommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	app := agent.App{
		Name: "test-agent", New: func(*cli.Context, *slog.Logger) (*agent.Agent, error) { return nil, errors.New("not run") },
		Commands: []*cli.Command{{Name: "build", Action: func(c *cli.Context) error {
			cancel()
			<-c.Context.Done()
			return fmt.Errorf("build modules: %w", c.Context.Err())
		}}},
	}
	var stdout, stderr bytes.Buffer
	code := agent.Exec(ctx, app, []string{"test-agent", "build"}, &stdout, &stderr)
	if code != 1 || stdout.String() != "" || stderr.String() != "test-agent: build modules: cancelled\n" {
		t.Errorf("exit code %d, %q, %q", code, stdout.String(), stderr.String())
	}
}

func TestHangupReloads(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "run")
	p.line("running")
	for range 2 {
		p.signal(syscall.SIGHUP)
		p.line("reloaded")
	}
	p.signal(syscall.SIGTERM)
	if code := p.end(); code != 0 {
		t.Errorf("want exit code 0, got %d", code)
	}
}

func TestHangupWithoutEffect(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "run", "--fail", "no reload")
	p.line("running")
	p.signal(syscall.SIGHUP)
	p.logs.wait(t, `level=INFO msg="ignoring SIGHUP, there is nothing to reload"`)
	p.signal(syscall.SIGTERM)
	if code := p.end(); code != 0 {
		t.Errorf("the agent goes on: want exit code 0, got %d", code)
	}
}

func TestSignalEndsWait(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "run", "wait", "--for", "driver-ready", "--run-root", t.TempDir())
	p.logs.wait(t, "msg=waiting for=driver-ready state=missing")
	p.signal(syscall.SIGTERM)
	if code := p.end(); code != 1 {
		t.Errorf("want exit code 1, got %d", code)
	}
	p.logs.wait(t, "test-agent: wait for driver-ready: ")
}
