package stack

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
)

// PodResult is the result of a finished pod of the vectoradd sample.
type PodResult struct {
	// Name is the name of the pod.
	Name string
	// Node is the node of the pod.
	Node string
	// GPUs are the UUIDs of the GPUs, or MIG devices, that the pod saw.
	GPUs []string
	// Log is the output of vectorAdd.
	Log string
}

// GPU is the resource of whole GPUs, and of MIG devices with the strategy single.
const GPU = "nvidia.com/gpu"

// MIGConfig is the label of a node that asks the MIG manager for a layout.
const MIGConfig = "nvidia.com/mig.config"

// Pod is a pod of the vectoradd sample.
type Pod struct {
	Name string
	// Resource is the resource that the pod requests; empty means GPU.
	Resource string
	// Count is the number of devices that the pod requests; 0 means 1.
	Count int
	// RuntimeClass is the pod's RuntimeClass; empty means the node's default runtime.
	RuntimeClass string
}

// vectorAdd is a pod that lists its GPUs, and then adds two vectors on one of them. The kubelet
// gives a pod's init container and its container the same devices.
const vectorAdd = `
apiVersion: v1
kind: Pod
metadata:
  name: %[1]s
spec:
  runtimeClassName: %[5]s
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  initContainers:
  - name: list
    image: %[2]s
    args: [--list]
    resources: {limits: {%[3]s: %[4]d}}
  containers:
  - name: vectoradd
    image: %[2]s
    resources: {limits: {%[3]s: %[4]d}}
`

// RunVectorAdd runs the sample in a pod that requests one GPU, and waits until the pod ends. It
// replaces a pod of the same name from an earlier run.
func (s *Stack) RunVectorAdd(ctx context.Context, pod string, timeout time.Duration) (PodResult, error) {
	return s.RunPod(ctx, Pod{Name: pod}, timeout)
}

// RunPod is RunVectorAdd for any pod of the sample.
func (s *Stack) RunPod(ctx context.Context, p Pod, timeout time.Duration) (PodResult, error) {
	if _, err := s.Kubectl(ctx, "delete", "pod", p.Name, "--ignore-not-found", "--wait"); err != nil {
		return PodResult{}, err
	}
	image, err := s.image("vectoradd")
	if err != nil {
		return PodResult{}, err
	}
	manifest := fmt.Sprintf(vectorAdd, p.Name, image, cmp.Or(p.Resource, GPU), max(p.Count, 1), cmp.Or(p.RuntimeClass, "null"))
	return s.RunManifest(ctx, p.Name, manifest, timeout)
}

// RunManifest applies a manifest with a pod that has the containers of the vectoradd sample, and
// waits until the pod ends.
func (s *Stack) RunManifest(ctx context.Context, pod, manifest string, timeout time.Duration) (PodResult, error) {
	if err := s.Apply(ctx, manifest); err != nil {
		return PodResult{}, err
	}
	if err := s.waitPod(ctx, pod, "Succeeded", timeout); err != nil {
		return PodResult{}, err
	}
	return s.podResult(ctx, pod)
}

// Image returns the name of the image of a component that was built here.
func (s *Stack) Image(component string) (string, error) { return s.image(component) }

// VectorAddImage returns the name of the sample's image.
func (s *Stack) VectorAddImage() (string, error) { return s.image("vectoradd") }

// waitPod waits for a phase of a pod. If the pod does not reach it, the error has the pod's
// description and logs.
func (s *Stack) waitPod(ctx context.Context, pod, phase string, timeout time.Duration) error {
	_, err := s.Kubectl(ctx, "wait", "pod/"+pod, "--for=jsonpath={.status.phase}="+phase, "--timeout", timeout.String())
	if err == nil {
		return nil
	}
	description, _ := s.Kubectl(ctx, "describe", "pod", pod)
	logs, _ := s.Kubectl(ctx, "logs", pod, "--all-containers", "--prefix", "--ignore-errors")
	return fmt.Errorf("wait for pod %s to be %s: %w\n%s\n%s", pod, phase, err, description, logs)
}

func (s *Stack) podResult(ctx context.Context, pod string) (PodResult, error) {
	node, err := s.Kubectl(ctx, "get", "pod", pod, "-o", "jsonpath={.spec.nodeName}")
	if err != nil {
		return PodResult{}, err
	}
	list, err := s.Kubectl(ctx, "logs", pod, "-c", "list")
	if err != nil {
		return PodResult{}, err
	}
	log, err := s.Kubectl(ctx, "logs", pod, "-c", "vectoradd")
	if err != nil {
		return PodResult{}, err
	}
	return PodResult{Name: pod, Node: node, GPUs: uuids(list), Log: log}, nil
}

// uuids returns the UUIDs of GPUs and MIG devices in a text.
func uuids(text string) []string {
	var found []string
	for word := range strings.FieldsSeq(text) {
		if word = strings.Trim(word, "(),:"); strings.HasPrefix(word, "GPU-") || strings.HasPrefix(word, "MIG-") {
			found = append(found, word)
		}
	}
	return found
}
