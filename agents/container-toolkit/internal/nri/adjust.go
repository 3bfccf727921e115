package nri

import (
	"errors"
	"strings"

	"github.com/containerd/nri/pkg/api"
	oci "github.com/opencontainers/runtime-spec/specs-go"

	spec "outrigger.dev/agents/container-toolkit/internal/oci"
)

var errNotByNRI = errors.New("the CDI specs have network devices or RDT classes, which some versions of NRI do not support: use the runtime nvidia for this container")

// adjust returns the edits in the form of NRI. Engines replace values of the container with the
// same name, path or destination. They reject a plugin that sets one of these twice.
func adjust(e spec.Edits) (*api.ContainerAdjustment, error) {
	if len(e.NetDevices) > 0 || e.IntelRdt != nil {
		return nil, errNotByNRI
	}
	a := &api.ContainerAdjustment{}
	for _, variable := range lastOfEach(e.Env, nameOf) {
		name, value, _ := strings.Cut(variable, "=")
		a.AddEnv(name, value)
	}
	for _, m := range api.FromOCIMounts(lastOfEach(e.Mounts, func(m oci.Mount) string { return m.Destination })) {
		a.AddMount(m)
	}
	for _, d := range api.FromOCILinuxDevices(lastOfEach(e.Devices, func(d oci.LinuxDevice) string { return d.Path })) {
		a.AddDevice(d)
	}
	for _, h := range e.Hooks {
		a.AddHooks(hook(h))
	}
	return a, nil
}

func nameOf(variable string) string {
	name, _, _ := strings.Cut(variable, "=")
	return name
}

// lastOfEach returns, for each key, the last item with this key.
func lastOfEach[T any](items []T, key func(T) string) []T {
	places := map[string]int{}
	for i, item := range items {
		places[key(item)] = i
	}
	var out []T
	for i, item := range items {
		if places[key(item)] == i {
			out = append(out, item)
		}
	}
	return out
}

func hook(h spec.Hook) *api.Hooks {
	hooks := api.FromOCIHookSlice([]oci.Hook{h.Hook})
	switch h.Phase {
	case "prestart":
		return &api.Hooks{Prestart: hooks}
	case "createRuntime":
		return &api.Hooks{CreateRuntime: hooks}
	case "createContainer":
		return &api.Hooks{CreateContainer: hooks}
	case "startContainer":
		return &api.Hooks{StartContainer: hooks}
	case "poststart":
		return &api.Hooks{Poststart: hooks}
	default:
		return &api.Hooks{Poststop: hooks}
	}
}
