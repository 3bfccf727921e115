package nri

import (
	"context"

	"github.com/containerd/nri/pkg/api"

	"outrigger.dev/agents/container-toolkit/internal/request"
)

// missed returns the running containers that were created without the plugin, although GPUs are
// allocated to them. Their variable or mounts name the GPUs. If the plugin or the engine has
// injected devices of CDI specs, the variable is "void" instead. The result includes containers
// that got GPUs from a runtime, because they look the same.
func (p *Plugin) missed(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) []missed {
	of := map[string]*api.PodSandbox{}
	for _, pod := range pods {
		of[pod.GetId()] = pod
	}
	var out []missed
	for _, c := range containers {
		env, pod := request.Environment(c.GetEnv()), of[c.GetPodSandboxId()]
		if c.GetState() == api.ContainerState_CONTAINER_STOPPED || env[visible] == "void" || pod == nil ||
			len(request.Named(request.Container{Env: env, Mounts: mounts(c)})) == 0 {
			continue
		}
		if gpus, err := p.allocated(ctx, pod, c); err == nil && len(gpus) > 0 {
			out = append(out, missed{pod: pod.GetNamespace() + "/" + pod.GetName(), container: c.GetName(), gpus: gpus})
		}
	}
	return out
}

// missed is a container that was created without the plugin.
type missed struct {
	pod, container string
	gpus           []string
}
