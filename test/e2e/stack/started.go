package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Tools is the folder of a node with the tools of the container toolkit.
const Tools = "/usr/local/nvidia/toolkit/"

// WithoutOldTools is a shell filter for lists of files on a node. It drops files of tool versions
// that Tools does not link to. The container toolkit removes such versions a minute after their
// replacement.
const WithoutOldTools = `awk -v now="$(readlink -f /usr/local/nvidia/toolkit)/" '!/\/\.toolkit\// || index($0, now)'`

// Start describes how a node started a container, from containerd's record.
type Start struct {
	// Runtime is the path of the OCI runtime.
	Runtime string
	// Hooks are the paths of the hooks that the runtime ran in the container.
	Hooks []string
}

// ByToolkit reports whether both the runtime and a hook are tools of the container toolkit.
func (s Start) ByToolkit() bool {
	tool := func(path string) bool { return strings.HasPrefix(path, Tools) }
	return tool(s.Runtime) && slices.ContainsFunc(s.Hooks, tool)
}

// Started returns how the first container of a pod was started. The record stays until the
// pod is deleted.
func (s *Stack) Started(ctx context.Context, pod string) (Start, error) {
	found, err := s.Kubectl(ctx, "get", "pod", pod, "-o", "jsonpath={.spec.nodeName} {.status.containerStatuses[0].containerID}")
	if err != nil {
		return Start{}, err
	}
	node, id, ok := strings.Cut(strings.TrimSpace(found), " containerd://")
	if !ok {
		return Start{}, fmt.Errorf("find the container of pod %s: it has none: %q", pod, found)
	}
	out, err := s.Exec(ctx, node, "ctr", "--namespace", "k8s.io", "containers", "info", id)
	if err != nil {
		return Start{}, err
	}
	start, err := parseStart([]byte(out))
	if err != nil {
		return Start{}, fmt.Errorf("read containerd's record of pod %s: %w", pod, err)
	}
	return start, nil
}

// parseStart reads the output of "ctr containers info".
func parseStart(record []byte) (Start, error) {
	type hook struct {
		Path string `json:"path"`
	}
	var info struct {
		Runtime struct {
			// Options are a message of type containerd.runc.v1.Options.
			Options struct {
				Value []byte `json:"value"`
			}
		}
		Spec struct {
			Hooks map[string][]hook `json:"hooks"`
		}
	}
	if err := json.Unmarshal(record, &info); err != nil {
		return Start{}, err
	}
	var start Start
	for _, hooks := range info.Spec.Hooks {
		for _, h := range hooks {
			start.Hooks = append(start.Hooks, h.Path)
		}
	}
	slices.Sort(start.Hooks)
	var err error
	start.Runtime, err = binaryName(info.Runtime.Options.Value)
	return start, err
}

// binaryName returns the field binary_name of the options of a runtime, "" for the default.
func binaryName(options []byte) (string, error) {
	const field = 6 // containerd, api/types/runc/options/oci.proto
	for len(options) > 0 {
		number, kind, n := protowire.ConsumeTag(options)
		if n < 0 {
			return "", protowire.ParseError(n)
		}
		options = options[n:]
		if number == field && kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(options)
			return string(value), protowire.ParseError(n)
		}
		if n = protowire.ConsumeFieldValue(number, kind, options); n < 0 {
			return "", protowire.ParseError(n)
		}
		options = options[n:]
	}
	return "", nil
}
