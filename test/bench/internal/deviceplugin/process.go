package deviceplugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
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
	log     bytes.Buffer
	started time.Time
	kubelet *kubelettest.Kubelet
	sockets string
}

// start runs the plugin and returns when the kubelet has its devices.
func start(ctx context.Context, node *simnode.Node, args ...string) (*process, error) {
	dirs := map[string]string{}
	for _, name := range []string{"sockets", "run", "cdi"} {
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
	p := &process{kubelet: kubelet, sockets: dirs["sockets"]}
	p.cmd = exec.CommandContext(ctx, filepath.Join(node.Bin, "device-plugin"), append([]string{
		"--kubelet-socket", kubelet.Socket(), "--run-root", dirs["run"], "--cdi-root", dirs["cdi"], "--listen", "127.0.0.1:0",
	}, args...)...)
	p.cmd.Stderr = &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		kubelet.Stop()
		return nil, fmt.Errorf("start device-plugin: %w", err)
	}
	if err := p.healthy(ctx); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// healthy waits until the kubelet has a list without an unhealthy device.
func (p *process) healthy(ctx context.Context) error {
	_, err := p.devices(ctx, func(d *pluginapi.Device) bool { return d.GetHealth() != pluginapi.Healthy }, 0)
	return err
}

// unhealthy waits until one device of the kubelet's list is unhealthy, and
// returns when the list came.
func (p *process) unhealthy(ctx context.Context) (time.Time, error) {
	u, err := p.devices(ctx, func(d *pluginapi.Device) bool { return d.GetHealth() == pluginapi.Unhealthy }, 1)
	return u.At, err
}

func (p *process) devices(ctx context.Context, is func(*pluginapi.Device) bool, want int) (kubelettest.Update, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stepLimit, fmt.Errorf("not within %s", stepLimit))
	defer cancel()
	u, err := p.kubelet.WaitDevices(ctx, resource, func(ds []*pluginapi.Device) bool {
		n := 0
		for _, d := range ds {
			if is(d) {
				n++
			}
		}
		return len(ds) > 0 && n == want
	})
	if err != nil {
		return u, fmt.Errorf("%w\n%s", err, p.log.String())
	}
	return u, nil
}

// registered waits for the n-th registration.
func (p *process) registered(ctx context.Context, n int) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stepLimit, fmt.Errorf("not within %s", stepLimit))
	defer cancel()
	r, err := p.kubelet.WaitRegistrations(ctx, n)
	return r.At, err
}

// stop ends the plugin as the kubelet does.
func (p *process) stop() error {
	defer p.kubelet.Stop()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop device-plugin: %w", err)
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("run device-plugin: %w\n%s", err, p.log.String())
	}
	return nil
}
