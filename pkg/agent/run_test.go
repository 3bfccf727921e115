package agent_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/pkg/agent"
)

func TestRunEnds(t *testing.T) {
	cases := map[string]struct {
		fail string
		code int
		want string
	}{
		"Run returns nil": {
			fail: "once", code: 0, want: "level=INFO msg=stopped",
		},
		"Run returns an error": {
			fail: "run", code: 1, want: `level=ERROR msg="stopped with an error" err="serve GPUs: the disk is full; and more"`,
		},
		"New returns an error": {
			fail: "new", code: 1, want: "test-agent: make agent: no reason",
		},
		"a metric is registered twice": {
			fail: "metrics", code: 1, want: `level=ERROR msg="stopped with an error" err="register metrics: duplicate metrics collector registration attempted"`,
		},
		"settings that differ from the flags": {
			fail: "config", code: 0, want: "config.replicas=7 config.interval=1m0s",
		},
		"settings that have no flag": {
			fail: "config", code: 0, want: "config.log_level=info config.resource=nvidia.com/gpu",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out, logs := newBuffer(), newBuffer()
			done := make(chan int)
			args := []string{"x", "--listen", "127.0.0.1:0", "--fail", tc.fail}
			go func() { done <- agent.Exec(ctx, testApp(), args, out, logs) }()
			logs.wait(t, tc.want)
			cancel()
			if code := <-done; code != tc.code {
				t.Errorf("want exit code %d, got %d: %s", tc.code, code, logs)
			}
		})
	}
}

func TestFirstLine(t *testing.T) {
	code, _, errs := run(t, "--fail=once", "--log-format", "json", "--driver-root=/run/nvidia/driver", "--interval=5s")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	line, _, _ := strings.Cut(errs, "\n")
	line = regexp.MustCompile(`"time":"[^"]*"`).ReplaceAllString(line, `"time":"T"`)
	golden.Assert(t, line+"\n", "first-line.golden")
}

func TestIgnoredFlags(t *testing.T) {
	const note = `msg="flag has no effect" flag=burst why="there is nothing to limit"`
	for _, args := range [][]string{{"--burst=5"}, {"--burst", "5"}, {}} {
		code, _, errs := run(t, append(args, "--fail=once")...)
		if code != 0 || strings.Contains(errs, note) != (len(args) > 0) {
			t.Errorf("%q: %d, %s", args, code, errs)
		}
	}
	t.Setenv("BURST", "5")
	if _, _, errs := run(t, "--fail=once"); !strings.Contains(errs, note) {
		t.Errorf("no note for the variable: %s", errs)
	}
}

func TestDriverRootCtrPath(t *testing.T) {
	if _, err := os.Stat("/driver-root"); err == nil {
		t.Skip("this machine has a folder /driver-root")
	}
	dir := t.TempDir()
	cases := map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"on a bare host it is the driver root": {want: "/"},
		"… also where that is elsewhere":       {args: []string{"--driver-root=/run/nvidia/driver"}, want: "/run/nvidia/driver"},
		"a folder that is given counts":        {args: []string{"--driver-root-ctr-path", dir + "/"}, want: dir},
		"… also before it exists":              {env: map[string]string{"DRIVER_ROOT_CTR_PATH": dir + "/later"}, want: dir + "/later"},
		"NVIDIA's names":                       {args: []string{"--nvidia-driver-root=/x", "--container-driver-root", "/y"}, want: "/y"},
		"NVIDIA's variable":                    {env: map[string]string{"CONTAINER_DRIVER_ROOT": "/z"}, want: "/z"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			_, out, errs := run(t, append(tc.args, "--fail=once")...)
			if want := "driver-root " + tc.want + "\n"; !strings.Contains(out, want) {
				t.Errorf("want %q, got %q, %q", want, out, errs)
			}
		})
	}
}

func TestBusyPort(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	defer l.Close()
	addr := l.Addr().String()
	code, out, errs := run(t, "--listen", addr)
	for _, part := range []string{`listen on \"` + addr + `\"`, "address already in use", "--listen or LISTEN_ADDRESS"} {
		if code != 1 || !strings.Contains(errs, part) {
			t.Errorf("want exit code 1 and %q, got %d and %q", part, code, errs)
		}
	}
	if strings.Contains(out, "running") {
		t.Error("the agent must not run without the port that --listen names")
	}
}

func TestHTTP(t *testing.T) {
	type answer struct {
		Code int
		Body string
	}
	healthy := answer{200, "inotify: ok\nnvml: ok\nok\n"}
	cases := map[string]struct {
		fail           string
		healthz, ready answer
	}{
		"all is well":                    {"", healthy, answer{200, "ok\n"}},
		"not ready":                      {"ready", healthy, answer{503, "waiting for the driver:; not loaded\n"}},
		"not alive":                      {"health", answer{503, "inotify: ok\nnvml: hangs\n"}, answer{200, "ok\n"}},
		"an agent without own functions": {"bare", answer{200, "ok\n"}, answer{200, "ok\n"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			url, stop := serve(t, "--fail", tc.fail)
			defer stop()
			get := func(path string) answer {
				code, body := fetch(t, url+path)
				return answer{code, body}
			}
			if diff := cmp.Diff(tc.healthz, get("/healthz")); diff != "" {
				t.Errorf("/healthz (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.ready, get("/readyz")); diff != "" {
				t.Errorf("/readyz (-want +got):\n%s", diff)
			}
			if got := get("/debug/pprof/"); got.Code != 404 {
				t.Errorf("nothing else is served: got %d", got.Code)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	url, stop := serve(t)
	defer stop()
	code, body := fetch(t, url+"/metrics")
	if code != 200 {
		t.Errorf("want 200, got %d", code)
	}
	for _, part := range []string{
		`outrigger_build_info{agent="test-agent",goversion="go1.`, "\ngo_goroutines ", "\nprocess_resident_memory_bytes ", "\ntest_total 0\n",
	} {
		if !strings.Contains(body, part) {
			t.Errorf("want %q in:\n%s", part, body)
		}
	}
}

// serve runs the test agent with its HTTP server.
func serve(t *testing.T, args ...string) (url string, stop func()) {
	t.Helper()
	return serveApp(t, testApp(), args...)
}

func serveApp(t *testing.T, app agent.App, args ...string) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	logs := newBuffer()
	done := make(chan int)
	go func() {
		done <- agent.Exec(ctx, app, append([]string{"x", "--listen=127.0.0.1:0"}, args...), io.Discard, logs)
	}()
	url = "http://" + logs.wait(t, "msg=serving address=")
	return url, func() {
		cancel()
		if code := <-done; code != 0 {
			t.Errorf("want exit code 0, got %d: %s", code, logs)
		}
	}
}

func fetch(t *testing.T, url string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	assert.NilError(t, err)
	resp, err := http.DefaultClient.Do(req)
	assert.NilError(t, err)
	defer resp.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	assert.NilError(t, err)
	return resp.StatusCode, b.String()
}

// TestServerEndsDespiteStuckPeer: a peer that sends half a request may not hold
// up the end of the process.
func TestServerEndsDespiteStuckPeer(t *testing.T) {
	url, stop := serve(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	assert.NilError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /metrics HTTP/1.1\r\n")
	assert.NilError(t, err)
	// The server has accepted that connection before it answers this one.
	fetch(t, url+"/healthz")
	stop()
}
