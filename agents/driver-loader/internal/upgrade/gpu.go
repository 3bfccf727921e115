package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/eviction"
)

// A pod requests a GPU through an extended resource of NVIDIA's device plugin, or through a
// ResourceClaim with an allocation of NVIDIA's DRA driver for GPUs.
const (
	gpuPrefix = "nvidia.com/gpu"
	migPrefix = "nvidia.com/mig-"
	draDriver = "gpu.nvidia.com"
)

// holdsGPU reports whether a pod holds a GPU of its node.
func holdsGPU(ctx context.Context, client *kube.Client, p *eviction.Pod) (bool, error) {
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if requestsGPU(c.Resources.Requests) || requestsGPU(c.Resources.Limits) {
			return true, nil
		}
	}
	for _, ref := range p.Spec.ResourceClaims {
		name := claimName(p, ref)
		if name == "" {
			continue // the claim does not exist yet, so it has no allocation
		}
		var claim resourceClaim
		err := client.Get(ctx, kube.Object{API: "resource.k8s.io/v1", Resource: "resourceclaims", Namespace: p.Namespace, Name: name}, &claim)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("read the resource claim %s/%s of pod %s: %w", p.Namespace, name, p.Name, err)
		}
		if slices.Contains(claim.Status.Allocation.Devices.Results, result{Driver: draDriver}) {
			return true, nil
		}
	}
	return false, nil
}

func requestsGPU(amounts map[string]string) bool {
	for name, amount := range amounts {
		if (strings.HasPrefix(name, gpuPrefix) || strings.HasPrefix(name, migPrefix)) && amount != "0" {
			return true
		}
	}
	return false
}

// claimName returns the name of the ResourceClaim of a pod's claim, or "" if it does not exist yet.
func claimName(p *eviction.Pod, ref eviction.Claim) string {
	if ref.ResourceClaimName != "" {
		return ref.ResourceClaimName
	}
	for _, made := range p.Status.ResourceClaimStatuses {
		if made.Name == ref.Name {
			return made.ResourceClaimName
		}
	}
	return ""
}

// resourceClaim has the allocated devices of a ResourceClaim.
type resourceClaim struct {
	Status struct {
		Allocation struct {
			Devices struct {
				Results []result `json:"results"`
			} `json:"devices"`
		} `json:"allocation"`
	} `json:"status"`
}

// result is an allocated device.
type result struct {
	Driver string `json:"driver"`
}
