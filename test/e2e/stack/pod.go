package stack

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// PodResult is what a finished pod of the vectoradd sample left behind.
type PodResult struct {
	// Node is where it ran.
	Node string
	// GPUs are the UUIDs of the GPUs that the pod saw.
	GPUs []string
	// Log is the output of vectorAdd.
	Log string
}

// vectorAdd is a pod that lists the GPUs it sees, and then adds two vectors on
// one of them. The kubelet gives a pod's init container and its container the
// same devices.
const vectorAdd = `
apiVersion: v1
kind: Pod
metadata:
  name: %[1]s
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  initContainers:
  - name: list
    image: %[2]s
    args: [--list]
    resources: {limits: {nvidia.com/gpu: 1}}
  containers:
  - name: vectoradd
    image: %[2]s
    resources: {limits: {nvidia.com/gpu: 1}}
`

// RunVectorAdd runs the sample in a pod that asks for one GPU and waits for
// its end. A pod of that name from an earlier run is replaced.
func (s *Stack) RunVectorAdd(ctx context.Context, pod string, timeout time.Duration) (PodResult, error) {
	if _, err := s.Kubectl(ctx, "delete", "pod", pod, "--ignore-not-found", "--wait"); err != nil {
		return PodResult{}, err
	}
	image, err := s.image("vectoradd")
	if err != nil {
		return PodResult{}, err
	}
	if err := s.Apply(ctx, fmt.Sprintf(vectorAdd, pod, image)); err != nil {
		return PodResult{}, err
	}
	if err := s.waitPod(ctx, pod, "Succeeded", timeout); err != nil {
		return PodResult{}, err
	}
	return s.podResult(ctx, pod)
}

// waitPod waits for a phase of a pod. If the phase does not come, the error
// says what the cluster knows of the pod.
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
	return PodResult{Node: node, GPUs: uuids(list), Log: log}, nil
}

// uuids returns the words of a text that are UUIDs of GPUs.
func uuids(text string) []string {
	var found []string
	for word := range strings.FieldsSeq(text) {
		if word = strings.Trim(word, "(),:"); strings.HasPrefix(word, "GPU-") {
			found = append(found, word)
		}
	}
	return found
}
