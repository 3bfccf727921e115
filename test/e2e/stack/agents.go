package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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
	release, err := s.DevicePlugin(values...)
	if err != nil {
		return err
	}
	return s.Install(ctx, release)
}

// Allocatable returns how many GPUs the kubelet of a node offers; it is empty
// where the resource is unknown.
func (s *Stack) Allocatable(ctx context.Context, node string) (string, error) {
	return s.Kubectl(ctx, "get", "node", node, "-o", "jsonpath={"+allocatable(GPU)+"}")
}

// allocatable is the path of a resource in a Node.
func allocatable(resource string) string {
	return ".status.allocatable." + strings.ReplaceAll(resource, ".", `\.`)
}

// Hardware says in words which GPUs are simulated on a node.
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
