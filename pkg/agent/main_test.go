package agent_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/file"
)

// envMain makes the test binary an agent, so that signals hit a real process.
const envMain = "OUTRIGGER_TEST_MAIN"

func TestMain(m *testing.M) {
	switch os.Getenv(envMain) {
	case "":
		os.Exit(m.Run())
	case "hang", "hang with a limit":
		app := testApp()
		if os.Getenv(envMain) != "hang" {
			app.StopLimit = 10 * time.Millisecond
		}
		app.New = func(*cli.Context, *slog.Logger) (*agent.Agent, error) {
			return &agent.Agent{Parts: []agent.Part{{Name: "first", Run: func(context.Context) error {
				fmt.Println("running")
				select {}
			}}}}, nil
		}
		agent.Main(app)
	case "hang in New":
		app := testApp()
		app.New = func(*cli.Context, *slog.Logger) (*agent.Agent, error) {
			fmt.Println("running")
			select {}
		}
		agent.Main(app)
	default:
		agent.Main(testApp())
	}
}

// testApp is an agent that prints the requests that it gets.
func testApp() agent.App {
	var host agent.Host
	var fail string
	var replicas, count int
	var interval time.Duration
	var strict bool
	return agent.App{
		Name:   "test-agent",
		Usage:  "does what tests ask for",
		Listen: "",
		Host:   &host,
		Flags: append(host.GPUFlags(),
			&cli.StringFlag{Name: "fail", EnvVars: []string{"FAIL"}, Usage: "`WHERE` to fail", Destination: &fail},
			&cli.IntFlag{Name: "replicas", Aliases: []string{"copies"}, EnvVars: []string{"REPLICAS"}, Value: 1, Usage: "replicas of each GPU", Destination: &replicas},
			&cli.DurationFlag{Name: "interval", EnvVars: []string{"INTERVAL"}, Value: time.Minute, Usage: "time between refreshes", Destination: &interval},
			&cli.BoolFlag{Name: "strict", EnvVars: []string{"STRICT"}, Usage: "stop at the first error", Destination: &strict},
			&cli.UintFlag{Name: "port", EnvVars: []string{"PORT"}, Usage: "a port"},
			&cli.IntSliceFlag{Name: "ids", EnvVars: []string{"IDS"}, Value: cli.NewIntSlice(0, 1), Usage: "some numbers"},
			&cli.Float64Flag{Name: "share", EnvVars: []string{"SHARE"}, Usage: "a share"},
			agent.Ignored("burst", "BURST", "there is nothing to limit"),
		),
		New: func(c *cli.Context, _ *slog.Logger) (*agent.Agent, error) {
			if fail == "new" {
				return nil, errors.New("make agent: no reason")
			}
			fmt.Fprintf(c.App.Writer, "replicas %d strict %t driver-root %s\n", replicas, strict, host.DriverRootCtrPath)
			return newTestAgent(fail, c.App.Writer), nil
		},
		Source: func(_ *cli.Context, log *slog.Logger) (gpu.Source, error) {
			if host.Snapshot == "" {
				return nil, errors.New("this agent has no NVML")
			}
			return file.New(host.Snapshot, log), nil
		},
		Commands: []*cli.Command{{
			Name:  "extra",
			Usage: "an agent's own command",
			Flags: []cli.Flag{&cli.IntFlag{Name: "count", EnvVars: []string{"EXTRA_COUNT"}, Usage: "how many", Destination: &count}},
			Action: func(c *cli.Context) error {
				agent.Logger(c).Debug("extra", "count", count, "replicas", replicas, "interval", interval)
				return nil
			},
		}},
	}
}

func newTestAgent(fail string, out io.Writer) *agent.Agent {
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "test_total", Help: "A counter."})
	part := agent.Part{
		Name: "test",
		Run: func(ctx context.Context) error {
			fmt.Fprintln(out, "running")
			switch fail {
			case "run":
				return errors.Join(errors.New("serve GPUs: the disk is full"), errors.New("and more"))
			case "once":
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		},
		Ready: func() error {
			if fail == "ready" {
				return errors.New("waiting for the driver:\nnot loaded")
			}
			return nil
		},
		Health: map[string]func() error{
			"inotify": func() error { return nil },
			"nvml": func() error {
				if fail == "health" {
					return errors.New("hangs")
				}
				return nil
			},
		},
		Reload:     func() { fmt.Fprintln(out, "reloaded") },
		Collectors: []prometheus.Collector{counter},
	}
	var effective []slog.Attr
	switch fail {
	case "metrics":
		part.Collectors = append(part.Collectors, counter)
	case "config":
		effective = []slog.Attr{slog.Int("replicas", 7), slog.String("resource", "nvidia.com/gpu")}
	case "no reload":
		part.Reload = nil
	case "bare":
		part = agent.Part{Name: "bare", Run: part.Run}
	}
	return &agent.Agent{Parts: []agent.Part{part}, Effective: effective}
}

// process is an agent that runs as a process of its own.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *bufio.Scanner
	logs watchedBuffer
}

func startProcess(t *testing.T, mode string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...) //nolint:noctx // ended below
	// A race build otherwise rests a second before it exits.
	cmd.Env = append(os.Environ(), envMain+"="+mode, "GORACE=atexit_sleep_ms=0")
	p := &process{t: t, cmd: cmd, logs: newBuffer()}
	cmd.Stderr = p.logs
	out, err := cmd.StdoutPipe()
	assert.NilError(t, err)
	p.out = bufio.NewScanner(out)
	assert.NilError(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return p
}

// line waits for a line on standard output.
func (p *process) line(want string) {
	p.t.Helper()
	for p.out.Scan() {
		if p.out.Text() == want {
			return
		}
	}
	p.t.Fatalf("no line %q on standard output; logs:\n%s", want, p.logs)
}

// signal sends sig.
func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	assert.NilError(p.t, p.cmd.Process.Signal(sig))
}

// end waits for the end of the process and returns its exit code.
func (p *process) end() int {
	p.t.Helper()
	for p.out.Scan() {
	}
	err := p.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// watchedBuffer is a writer whose content can be waited for.
type watchedBuffer struct{ *agenttest.Lines }

func newBuffer() watchedBuffer { return watchedBuffer{agenttest.NewLines()} }

// wait waits until the content contains text, and returns what follows it in
// the line.
func (b watchedBuffer) wait(t *testing.T, text string) string {
	t.Helper()
	assert.NilError(t, b.Wait(agenttest.Deadline(t), text), "%s", b)
	_, rest, _ := strings.Cut(b.String(), text)
	rest, _, _ = strings.Cut(rest, "\n")
	return rest
}

// run runs the test agent in this process.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = agent.Exec(t.Context(), testApp(), append([]string{"test-agent"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}
