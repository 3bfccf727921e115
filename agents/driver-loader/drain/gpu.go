package drain

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The names of what a GPU is requested by: extended resources of NVIDIA's device plugin, and
// the driver of NVIDIA's DRA driver for GPUs.
const (
	gpuPrefix = "nvidia.com/gpu"
	migPrefix = "nvidia.com/mig-"
	draDriver = "gpu.nvidia.com"
)

// holdsGPU reports whether a pod holds a GPU of its node.
func (d *drainer) holdsGPU(ctx context.Context, pod corev1.Pod) (bool, error) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			if requestsGPU(c.Resources.Requests) || requestsGPU(c.Resources.Limits) {
				return true, nil
			}
		}
	}
	for _, ref := range pod.Spec.ResourceClaims {
		claim := claimName(pod, ref)
		if claim == "" {
			continue // it is not created yet, so that nothing is allocated
		}
		c, err := d.client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, claim, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("read the resource claim %s/%s of pod %s: %w", pod.Namespace, claim, pod.Name, err)
		}
		if allocatesGPU(c) {
			return true, nil
		}
	}
	return false, nil
}

func requestsGPU(list corev1.ResourceList) bool {
	for name, quantity := range list {
		s := string(name)
		if (strings.HasPrefix(s, gpuPrefix) || strings.HasPrefix(s, migPrefix)) && !quantity.IsZero() {
			return true
		}
	}
	return false
}

// claimName returns the name of a claim of the pod, empty if it is not created yet.
func claimName(pod corev1.Pod, ref corev1.PodResourceClaim) string {
	if ref.ResourceClaimName != nil {
		return *ref.ResourceClaimName
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.Name == ref.Name && s.ResourceClaimName != nil {
			return *s.ResourceClaimName
		}
	}
	return ""
}

func allocatesGPU(c *resourcev1.ResourceClaim) bool {
	if c.Status.Allocation == nil {
		return false
	}
	for _, device := range c.Status.Allocation.Devices.Results {
		if device.Driver == draDriver {
			return true
		}
	}
	return false
}
