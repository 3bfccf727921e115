package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/kubelettest"
	"outrigger.dev/test/bench/internal/process"
	"outrigger.dev/test/bench/internal/simnode"
)

const resource = "nvidia.com/gpu"

// plugin is a running plugin with its kubelet.
type plugin struct {
	*process.Process

	kubelet *kubelettest.Kubelet
}

// start starts the plugin and returns when the kubelet has its devices.
func start(ctx context.Context, node *simnode.Node, args ...string) (*plugin, error) {
	dirs := map[string]string{}
	for _, name := range []string{"run", "cdi"} {
		dir, err := node.Dir(name)
		if err != nil {
			return nil, fmt.Errorf("create folder: %w", err)
		}
		dirs[name] = dir
	}
	return run(ctx, node, func(socket string) []string {
		return append([]string{
			filepath.Join(node.Bin, Name), "--kubelet-socket", socket,
			"--run-root", dirs["run"], "--cdi-root", dirs["cdi"], "--listen", "127.0.0.1:0",
		}, args...)
	})
}

// run starts a plugin with the command for the kubelet's socket, and returns when the
// kubelet has its devices.
func run(ctx context.Context, node *simnode.Node, command func(socket string) []string) (*plugin, error) {
	dirs := map[string]string{}
	for _, name := range []string{"sockets", "log"} {
		dir, err := node.Dir(name)
		if err != nil {
			return nil, fmt.Errorf("create folder: %w", err)
		}
		dirs[name] = dir
	}
	kubelet, err := kubelettest.Start(dirs["sockets"])
	if err != nil {
		return nil, err
	}
	p := &plugin{kubelet: kubelet}
	p.Process, err = process.Start(ctx, process.Config{Line: command(kubelet.Socket()), Log: filepath.Join(dirs["log"], Name+".log")})
	if err != nil {
		kubelet.Stop()
		return nil, err
	}
	if _, err := p.unhealthy(ctx, 0); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// unhealthy waits until exactly n devices of the kubelet's list are unhealthy.
func (p *plugin) unhealthy(ctx context.Context, n int) (kubelettest.Update, error) {
	ctx, cancel := process.Limited(ctx)
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
			n, seen, len(u.Devices), context.DeadlineExceeded, p.Tail())
	}
	return u, nil
}

// registered waits for the n-th registration.
func (p *plugin) registered(ctx context.Context, n int) (time.Time, error) {
	ctx, cancel := process.Limited(ctx)
	defer cancel()
	r, err := p.kubelet.WaitRegistrations(ctx, n)
	return r.At, err
}

// stop stops the plugin, and then its kubelet.
func (p *plugin) stop() error {
	defer p.kubelet.Stop()
	return p.Stop()
}
