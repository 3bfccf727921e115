package nri

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	oci "github.com/opencontainers/runtime-spec/specs-go"

	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/agents/container-toolkit/internal/request"
	"outrigger.dev/agents/container-toolkit/internal/shim"
	"outrigger.dev/pkg/nri"
)

const visible = "NVIDIA_VISIBLE_DEVICES"

// handler handles the requests of one session.
type handler struct {
	*nri.Session
	*Plugin
}

// Synchronize is the last request before the engine asks about containers. Running containers
// cannot get devices any more.
func (h *handler) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	updates, err := h.Session.Synchronize(ctx, pods, containers)
	ctx, cancel := withTimeToAnswer(ctx)
	defer cancel()
	for _, m := range h.missed(ctx, pods, containers) {
		h.Log.Warn("a container started while the nri plugin was not connected and may lack its gpus: if it does, delete its pod",
			"pod", m.pod, "container", m.container, "gpus", m.gpus)
	}
	return updates, err
}

// CreateContainer returns the adjustment of a container. After an error the engine does not create
// the container. The kubelet shows the error in an Event of the pod, and retries.
func (h *handler) CreateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	ctx, cancel := withTimeToAnswer(ctx)
	defer cancel()
	gpus, err := h.allocated(ctx, pod, c)
	if err != nil || len(gpus) == 0 {
		return nil, nil, err
	}
	plan, err := shim.Make(containerOf(c, gpus), h.target(c), &h.tools)
	if err != nil {
		return nil, nil, err
	}
	log := h.Log.With("pod", pod.GetNamespace()+"/"+pod.GetName(), "container", c.GetName(), "gpus", gpus)
	if hasDevices(c, plan) {
		log.Debug("the container has its gpus already, adding nothing")
		return nil, nil, nil
	}
	adjustment, err := adjust(plan.Edits)
	if err != nil {
		return nil, nil, fmt.Errorf("inject GPUs: %w", err)
	}
	log.Info("gave the container its allocated gpus")
	return adjustment, nil, nil
}

// withTimeToAnswer limits ctx to half of the time of a request. The rest is for the answer: an
// engine without an answer in time creates the container without the plugin.
func withTimeToAnswer(ctx context.Context) (context.Context, context.CancelFunc) {
	end, limited := ctx.Deadline()
	if !limited {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/2)
}

// allocated returns the UUIDs of the GPUs and MIG devices that the kubelet allocated to a
// container.
func (p *Plugin) allocated(ctx context.Context, pod *api.PodSandbox, c *api.Container) ([]string, error) {
	named := request.Named(request.Container{Env: request.Environment(c.GetEnv()), Mounts: mounts(c)})
	found, err := p.Kubelet.Pod(ctx, pod.GetNamespace(), pod.GetName())
	if err != nil && len(named) == 0 {
		p.Log.Warn("cannot read the allocations of the kubelet, adding no gpus to a container that names none",
			"pod", pod.GetNamespace()+"/"+pod.GetName(), "container", c.GetName(), "err", err)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inject GPUs: the container names %s, but its allocation cannot be read: %w; the kubelet retries", strings.Join(named, ", "), err)
	}
	if devices, listed := found[c.GetName()]; listed {
		return uuids(devices)
	}
	return named, checkAllocated(named, found)
}

func mounts(c *api.Container) []request.Mount {
	var out []request.Mount
	for _, m := range c.GetMounts() {
		out = append(out, request.Mount{Source: m.GetSource(), Destination: m.GetDestination()})
	}
	return out
}

// containerOf returns a container that requests GPUs by their UUIDs. It keeps only the variables
// of c for driver capabilities and requirements.
func containerOf(c *api.Container, gpus []string) request.Container {
	env := request.Environment(c.GetEnv())
	for name := range env {
		if !slices.Contains([]string{"NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_DISABLE_REQUIRE", "CUDA_VERSION"}, name) &&
			!strings.HasPrefix(name, "NVIDIA_REQUIRE_") {
			delete(env, name)
		}
	}
	env[visible] = strings.Join(gpus, ",")
	return request.Container{Env: env}
}

// target describes the container that gets the devices. Older engines do not send its
// user.
func (p *Plugin) target(c *api.Container) inject.Target {
	return inject.Target{
		User: oci.User{UID: c.GetUser().GetUid(), GID: c.GetUser().GetGid()},
		UserNamespace: slices.ContainsFunc(c.GetLinux().GetNamespaces(), func(n *api.LinuxNamespace) bool {
			return n.GetType() == string(oci.UserNamespace)
		}),
		Stat: p.Stat,
		// NRI cannot add groups. The device nodes belong to the user, if it is not root.
		NoGIDs: true,
	}
}

// hasDevices reports whether the engine has given the container these devices already, by CDI
// names in the request or in annotations. In this case, the container has their device nodes and
// NVIDIA_VISIBLE_DEVICES=void. Specs for GPUs set this value, so that other tools do not add GPUs.
// The variable is checked because a privileged container always has the device nodes.
func hasDevices(c *api.Container, plan *shim.Plan) bool {
	if request.Environment(c.GetEnv())[visible] != "void" {
		return false
	}
	own := map[string]bool{}
	for _, d := range plan.Devices {
		for _, n := range d.Edits.DeviceNodes {
			own[n.Path] = true
		}
	}
	missing := func(d oci.LinuxDevice) bool {
		return own[d.Path] && !slices.ContainsFunc(c.GetLinux().GetDevices(), func(has *api.LinuxDevice) bool {
			return has.GetPath() == d.Path && has.GetMajor() == d.Major && has.GetMinor() == d.Minor
		})
	}
	return len(own) > 0 && !slices.ContainsFunc(plan.Edits.Devices, missing)
}
