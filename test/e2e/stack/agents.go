package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// DevicePlugin returns the release of the device plugin with the image that
// was built here.
func (s *Stack) DevicePlugin(values ...string) (Release, error) {
	return s.Agent("device-plugin", values...)
}

// Agent returns the release of an agent with the image that was built here.
func (s *Stack) Agent(name string, values ...string) (Release, error) {
	ref, err := s.image(name)
	if err != nil {
		return Release{}, err
	}
	repository, tag, _ := strings.Cut(ref, ":")
	return Release{
		Chart:  name,
		Values: append([]string{"image.repository=" + repository, "image.tag=" + tag}, values...),
	}, nil
}

// InstallDevicePlugin installs the device plugin with values in the form of
// Helm's --set, and waits until it is ready.
func (s *Stack) InstallDevicePlugin(ctx context.Context, values ...string) error {
	return s.installAgent(ctx, "device-plugin", values...)
}

// InstallFeatureDiscovery installs feature discovery in the same way as InstallDevicePlugin.
func (s *Stack) InstallFeatureDiscovery(ctx context.Context, values ...string) error {
	return s.installAgent(ctx, "feature-discovery", values...)
}

// InstallContainerToolkit installs the container toolkit in the same way as InstallDevicePlugin.
func (s *Stack) InstallContainerToolkit(ctx context.Context, values ...string) error {
	return s.installAgent(ctx, "container-toolkit", values...)
}

func (s *Stack) installAgent(ctx context.Context, name string, values ...string) error {
	release, err := s.Agent(name, values...)
	if err != nil {
		return err
	}
	return s.Install(ctx, release)
}

// GPUReady returns the status of the condition GPUReady of a Node, or "" without the condition.
func (s *Stack) GPUReady(ctx context.Context, node string) (string, error) {
	return s.Kubectl(ctx, "get", "node", node, "-o", `jsonpath={.status.conditions[?(@.type=="GPUReady")].status}`)
}

// WaitGPUReady waits until the GPUs of a node can be used.
func (s *Stack) WaitGPUReady(ctx context.Context, node string, limit time.Duration) error {
	_, err := s.Kubectl(ctx, "wait", "node/"+node, "--for=condition=GPUReady", "--timeout="+limit.String())
	return err
}

// Allocatable returns the number of GPUs that the kubelet of a node advertises, or "" if the
// resource is unknown.
func (s *Stack) Allocatable(ctx context.Context, node string) (string, error) {
	return s.Kubectl(ctx, "get", "node", node, "-o", "jsonpath={"+allocatable(GPU)+"}")
}

// allocatable returns the path of a resource in a Node object.
func allocatable(resource string) string {
	return ".status.allocatable." + strings.ReplaceAll(resource, ".", `\.`)
}

// Hardware returns the number and the name of a node's simulated GPUs as text.
func (s *Stack) Hardware(ctx context.Context, node string) (string, error) {
	if !slices.Contains(s.GPUNodes(), node) {
		return "none", nil
	}
	out, err := s.Simulate(ctx, node, "show", "--json")
	if err != nil {
		return "", err
	}
	var shown struct {
		GPUs []struct {
			Name string `json:"name"`
		} `json:"gpus"`
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil {
		return "", fmt.Errorf("read gpu-sim show of %s: %w", node, err)
	}
	if len(shown.GPUs) == 0 {
		return "none", nil
	}
	return fmt.Sprintf("%d × %s", len(shown.GPUs), shown.GPUs[0].Name), nil
}
