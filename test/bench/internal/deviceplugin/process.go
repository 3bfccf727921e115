package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/kubelettest"
	"outrigger.dev/test/bench/internal/simnode"
)

const (
	resource = "nvidia.com/gpu"
	// stepLimit is how long anything that is measured may take.
	stepLimit = 30 * time.Second
)

// process is one run of the plugin, with a kubelet.
type process struct {
	cmd     *exec.Cmd
	log     string // its path
	started time.Time
	kubelet *kubelettest.Kubelet
}

// start runs the plugin and returns when the kubelet has its devices.
func start(ctx context.Context, node *simnode.Node, args ...string) (*process, error) {
	dirs := map[string]string{}
	for _, name := range []string{"run", "cdi"} {
		dir, err := node.Dir(name)
		if err != nil {
			return nil, fmt.Errorf("make folder: %w", err)
		}
		dirs[name] = dir
	}
	return run(ctx, node, func(socket string) []string {
		return append([]string{
			filepath.Join(node.Bin, "device-plugin"), "--kubelet-socket", socket,
			"--run-root", dirs["run"], "--cdi-root", dirs["cdi"], "--listen", "127.0.0.1:0",
		}, args...)
	})
}

// run runs the command of a plugin, given the kubelet's socket, and returns when
// the kubelet has its devices.
func run(ctx context.Context, node *simnode.Node, command func(socket string) []string) (*process, error) {
	dirs := map[string]string{}
	for _, name := range []string{"sockets", "log"} {
		dir, err := node.Dir(name)
		if err != nil {
			return nil, fmt.Errorf("make folder: %w", err)
		}
		dirs[name] = dir
	}
	kubelet, err := kubelettest.Start(dirs["sockets"])
	if err != nil {
		return nil, err
	}
	p := &process{kubelet: kubelet, log: filepath.Join(dirs["log"], "plugin.log")}
	line := command(kubelet.Socket())
	p.cmd = exec.CommandContext(ctx, line[0], line[1:]...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.begin(); err != nil {
		kubelet.Stop()
		return nil, fmt.Errorf("start %s: %w", filepath.Base(line[0]), err)
	}
	if _, err := p.unhealthy(ctx, 0); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *process) begin() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	p.cmd.Stderr = log
	p.started = time.Now()
	return errors.Join(p.cmd.Start(), log.Close())
}

// unhealthy waits until exactly n devices of the kubelet's list are unhealthy.
func (p *process) unhealthy(ctx context.Context, n int) (kubelettest.Update, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	seen := 0
	u, err := p.kubelet.WaitDevices(ctx, resource, func(ds []*pluginapi.Device) bool {
		seen = 0
		for _, d := range ds {
			if d.GetHealth() != pluginapi.Healthy {
				seen++
			}
		}
		return len(ds) > 0 && seen == n
	})
	if err != nil {
		return u, fmt.Errorf("want %d unhealthy devices, have %d of %d: %w\n%s",
			n, seen, len(u.Devices), context.DeadlineExceeded, p.tail())
	}
	return u, nil
}

// registered waits for the n-th registration.
func (p *process) registered(ctx context.Context, n int) (time.Time, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	r, err := p.kubelet.WaitRegistrations(ctx, n)
	return r.At, err
}

func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, stepLimit, fmt.Errorf("not within %s", stepLimit))
}

// tail returns the end of the log.
func (p *process) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const enough = 4000
	return string(data[max(0, len(data)-enough):])
}

// metrics returns what the plugin's own HTTP server tells.
func (p *process) metrics(ctx context.Context) (string, error) {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`msg=serving address=(\S+)`).FindSubmatch(data)
	if found == nil {
		return "", fmt.Errorf("find the plugin's metrics: its log tells no address:\n%s", p.tail())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+string(found[1])+"/metrics", nil)
	if err != nil {
		return "", err
	}
	// A connection that is kept costs the plugin goroutines and memory.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// metric waits until /metrics has a line that the pattern fits.
func (p *process) metric(ctx context.Context, pattern string) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	want := regexp.MustCompile(pattern)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		text, err := p.metrics(ctx)
		if err != nil {
			return err
		}
		if want.MatchString(text) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s in /metrics: %w", pattern, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// status returns a line of /proc/PID/status, in MiB.
func (p *process) status(key string) (float64, error) {
	path := fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			return float64(kib) / 1024, err
		}
	}
	return 0, fmt.Errorf("read %s: no line %s", path, key)
}

// stop ends the plugin as the kubelet does.
func (p *process) stop() error {
	defer p.kubelet.Stop()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop plugin: %w", err)
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("run plugin: %w\n%s", err, p.tail())
	}
	return nil
}
