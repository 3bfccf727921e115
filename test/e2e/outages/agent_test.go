//go:build e2e

package outages_test

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

	"outrigger.dev/agents/device-plugin/kubelettest"
)

// kind is an agent, with what it is started with and what it publishes.
type kind struct {
	name string
	args func(dir string) []string
	// kubelet is set for an agent that registers with one as a device plugin, and slices for one
	// that does as a plugin for ResourceSlices, which it publishes.
	kubelet, slices bool
	// period is longer than the time between two readings of the agent.
	period time.Duration
	// published adds what the agent has published to its state.
	published func(p *process, s state) error
	// reports tells whether the state shows that GPU 0 has reported an XID. It is nil for an
	// agent that does not publish that.
	reports func(s state) bool
}

// state is what an agent publishes, by names.
type state map[string]string

// process is an agent that runs on a node, with the periods that it has in production.
type process struct {
	kind    *kind
	cmd     *exec.Cmd
	dir     string
	log     string
	kubelet *kubelettest.Kubelet
	api     *sliceServer
	ended   chan struct{}
	err     error
}

// start starts an agent on the node, with files in the empty folder dir.
func start(ctx context.Context, k *kind, n *node, dir string) (*process, error) {
	p := &process{kind: k, dir: dir, log: filepath.Join(dir, "log"), ended: make(chan struct{})}
	for _, folder := range []string{"k", "run", "cdi", "reg"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			return nil, err
		}
	}
	var err error
	if k.kubelet {
		p.kubelet, err = kubelettest.Start(filepath.Join(dir, "k"))
	}
	if k.slices {
		p.api = newSliceServer()
		err = p.api.kubeconfig(filepath.Join(dir, "kubeconfig"))
	}
	if err != nil {
		return nil, err
	}
	log, err := os.Create(p.log) //nolint:forbidigo // nobody reads it before it is whole
	if err != nil {
		return nil, err
	}
	bin := n.sim.bin
	args := []string{"exec", "--root=" + n.root, "--"}
	args = append(args, alone(n.user)...)
	args = append(args, filepath.Join(bin, k.name), "--run-root="+filepath.Join(dir, "run"), "--listen=127.0.0.1:0")
	p.cmd = exec.CommandContext(ctx, filepath.Join(bin, "gpu-sim"), append(args, k.args(dir)...)...)
	p.cmd.Stderr = log
	if err := errors.Join(p.cmd.Start(), log.Close()); err != nil {
		return nil, err
	}
	alive, end := context.WithCancel(ctx)
	accepted := make(chan error, 1)
	go func() {
		if k.slices {
			accepted <- acceptPlugin(alive, filepath.Join(dir, "reg", registration))
		}
		close(accepted)
	}()
	go func() {
		err := p.cmd.Wait()
		end()
		p.err = errors.Join(err, <-accepted)
		close(p.ended)
	}()
	return p, nil
}

// alone is a command that runs another one as a user with the rights of root: the kernel limits the
// inotify instances of each user, and this machine's other tests need theirs.
func alone(user int) []string {
	// Those for files and mounts.
	const rights = "+chown,+dac_override,+dac_read_search,+fowner,+sys_admin,+sys_ptrace"
	return []string{
		"setpriv", "--reuid=" + strconv.Itoa(user), "--keep-groups", "--inh-caps=" + rights, "--ambient-caps=" + rights, "--pdeathsig=KILL", "--",
	}
}

// stop stops the agent as the kubelet does, and then the kubelet. It returns an error if the agent
// ended before, or not well.
func (p *process) stop() error {
	select {
	case <-p.ended:
		p.stopServers()
		return fmt.Errorf("%s ended by itself: %w", p.kind.name, p.err)
	default:
	}
	late := time.AfterFunc(limit, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	err := p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
	p.stopServers()
	return errors.Join(err, p.err)
}

func (p *process) stopServers() {
	if p.kubelet != nil {
		p.kubelet.Stop()
	}
	if p.api != nil {
		p.api.close()
	}
}

// state returns what the agent publishes, with its readiness.
func (p *process) state(ctx context.Context) state {
	s := state{}
	err := p.kind.published(p, s)
	if err == nil {
		s["readyz"], err = p.get(ctx, "/readyz")
	}
	if err != nil {
		s["error"] = err.Error()
	}
	return s
}

var served = regexp.MustCompile(`msg=serving address=(\S+)`)

// get returns what the HTTP server of the agent answers.
func (p *process) get(ctx context.Context, path string) (string, error) {
	log, err := os.ReadFile(p.log)
	if err != nil {
		return "", err
	}
	address := served.FindSubmatch(log)
	if address == nil {
		return "", errors.New("the agent does not serve yet")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+string(address[1])+path, nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: limit}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return strconv.Itoa(resp.StatusCode) + " " + strings.TrimSpace(string(data)), err
	}
	return string(data), err
}
