package nri

import (
	"context"

	"github.com/containerd/nri/pkg/api"

	"outrigger.dev/agents/container-toolkit/internal/request"
)

// missed returns the running containers that were created without asking the plugin, and to
// which GPUs are allocated. They name them; where the plugin or the engine gave the
// devices of CDI specs, the variable is "void" instead. A runtime that gives GPUs shows
// neither.
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

// missed is a container that the plugin was not asked about.
type missed struct {
	pod, container string
	gpus           []string
}
