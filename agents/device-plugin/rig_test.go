package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/kubelettest"
)

// The tests of this package run the plugin as a process, on the simulated node
// and with a kubelet over real sockets. The process is this test binary, which
// becomes the plugin where asMain is set; so it has the race detector too.
const asMain = "DEVICE_PLUGIN_TEST_AS_MAIN"

const resource = "nvidia.com/gpu"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// limit is how long anything may take before a test gives up.
const limit = 20 * time.Second

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("not within %s", limit))
	t.Cleanup(cancel)
	return ctx
}

// node is a simulated node.
type node struct {
	sim  string
	root string
}

func newNode(t *testing.T, args ...string) *node {
	t.Helper()
	bin := os.Getenv("OUTRIGGER_BIN")
	if bin == "" {
		bin = "../../bin"
	}
	sim, err := filepath.Abs(filepath.Join(bin, "gpu-sim"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(sim); err != nil {
		t.Skipf("needs the simulated node: %v (run: make sim)", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: the simulated node is shown in a mount namespace")
	}
	n := &node{sim: sim, root: filepath.Join(shortDir(t), "node")}
	n.run(t, "create", append([]string{"--name", "test"}, args...)...)
	t.Cleanup(func() { n.run(t, "delete") })
	return n
}

// run runs gpu-sim on the node and returns what it printed.
func (n *node) run(t *testing.T, command string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), n.sim, append([]string{command, "--root", n.root}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("gpu-sim %s %v: %v: %s", command, args, err, stderr.String())
	}
	return out
}

// calls returns the NVML calls since the last calls, without those by which
// events are waited for.
func (n *node) calls(t *testing.T) map[string]int {
	t.Helper()
	var calls map[string]int
	if err := json.Unmarshal(n.run(t, "calls", "--json", "--reset"), &calls); err != nil {
		t.Fatal(err)
	}
	delete(calls, "nvmlEventSetWait_v2")
	for symbol, count := range calls {
		if count == 0 {
			delete(calls, symbol)
		}
	}
	return calls
}

// shortDir returns a folder whose name leaves room for that of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dp") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// process is a running plugin.
type process struct {
	t       *testing.T
	kubelet *kubelettest.Kubelet
	cmd     *exec.Cmd
	log     logBuffer
	dir     string
	stopped bool
}

// start starts the plugin in the node, with a kubelet, or on the host where n
// is nil.
func start(t *testing.T, n *node, args ...string) *process {
	t.Helper()
	p := &process{t: t, dir: shortDir(t)}
	for _, name := range []string{"sockets", "run", "cdi"} {
		if err := os.Mkdir(p.path(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	kubelet, err := kubelettest.Start(p.path("sockets"))
	if err != nil {
		t.Fatal(err)
	}
	p.kubelet = kubelet
	t.Cleanup(kubelet.Stop)
	p.cmd = command(t, n, append([]string{
		"--kubelet-socket", kubelet.Socket(), "--run-root", p.path("run"), "--cdi-root", p.path("cdi"), "--listen", "127.0.0.1:0",
	}, args...)...)
	p.log.changed = make(chan struct{})
	p.cmd.Stderr = &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !p.stopped {
			p.stop()
		}
		if t.Failed() {
			t.Logf("the plugin's log:\n%s", p.log.String())
		}
	})
	return p
}

// command is this binary as the plugin, in the node if there is one.
func command(t *testing.T, n *node, args ...string) *exec.Cmd {
	t.Helper()
	// It is stopped by a signal, and not killed when the test's context ends.
	ctx := context.WithoutCancel(t.Context())
	self := os.Args[0]
	cmd := exec.CommandContext(ctx, self, args...)
	if n != nil {
		cmd = exec.CommandContext(ctx, n.sim, append([]string{"exec", "--root", n.root, "--", self}, args...)...)
	}
	cmd.Env = append(os.Environ(), asMain+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (p *process) path(name string) string { return filepath.Join(p.dir, name) }

// stop ends the plugin as the kubelet does, and wants it to end well in time.
func (p *process) stop() {
	p.t.Helper()
	p.stopped = true
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Error(err)
	}
	begin := time.Now()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the plugin ended with %v", err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		p.t.Errorf("the plugin took %s to end, want at most 2 s", took)
	}
}

// wait waits until the kubelet's newest list has so many healthy and unhealthy
// devices.
func (p *process) wait(healthy, unhealthy int) []*pluginapi.Device {
	p.t.Helper()
	u, err := p.kubelet.WaitDevices(deadline(p.t), resource, func(ds []*pluginapi.Device) bool {
		good := slices.DeleteFunc(slices.Clone(ds), func(d *pluginapi.Device) bool { return d.GetHealth() != pluginapi.Healthy })
		return len(good) == healthy && len(ds) == healthy+unhealthy
	})
	if err != nil {
		p.t.Fatalf("want %d healthy and %d unhealthy devices: %v", healthy, unhealthy, err)
	}
	return u.Devices
}

// said waits until the log has all parts in one line.
func (p *process) said(parts ...string) {
	p.t.Helper()
	if err := p.log.wait(deadline(p.t), parts); err != nil {
		p.t.Fatal(err)
	}
}

// logBuffer collects a log and wakes who waits for a line.
type logBuffer struct {
	mu      sync.Mutex
	data    bytes.Buffer
	changed chan struct{}
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
	return b.data.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

func (b *logBuffer) wait(ctx context.Context, parts []string) error {
	for {
		b.mu.Lock()
		text, changed := b.data.String(), b.changed
		b.mu.Unlock()
		for line := range strings.Lines(text) {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait for a log line with %q", parts), context.Cause(ctx))
		case <-changed:
		}
	}
}
