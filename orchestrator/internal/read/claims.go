package read

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"outrigger.dev/orchestrator/internal/facts"
)

// objects calls do for each object of a kind in the cluster, page by page.
func objects[T any](ctx context.Context, r *reader, kind schema.GroupVersionResource, do func(*facts.Facts, *T)) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := r.client.Dynamic.Resource(kind).List(ctx, options)
		if err != nil {
			return fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for i := range list.Items {
			o := new(T)
			if err := convert(&list.Items[i], o); err != nil {
				return err
			}
			r.add(func(f *facts.Facts) { do(f, o) })
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// allocation returns the kind of a resource of Dynamic Resource Allocation.
func allocation(resource string) schema.GroupVersionResource {
	return resourcev1.SchemeGroupVersion.WithResource(resource)
}

// deviceClasses returns the step that reads the DeviceClasses, without the configuration of devices.
func (r *reader) deviceClasses() step {
	return step{"DeviceClasses", func(ctx context.Context) error {
		return objects(ctx, r, allocation("deviceclasses"), func(f *facts.Facts, c *resourcev1.DeviceClass) {
			trimMeta(&c.ObjectMeta)
			c.Spec.Config = nil
			f.Classes = append(f.Classes, c)
		})
	}}
}

// claims returns the steps that read all that the scheduler knows of claims, without the configuration of devices.
func (r *reader) claims() []step {
	return []step{
		r.deviceClasses(),
		{"ResourceClaims", func(ctx context.Context) error {
			return objects(ctx, r, allocation("resourceclaims"), func(f *facts.Facts, c *resourcev1.ResourceClaim) {
				trimMeta(&c.ObjectMeta)
				c.Spec.Devices.Config, c.Status.Devices = nil, nil
				if c.Status.Allocation != nil {
					c.Status.Allocation.Devices.Config = nil
				}
				f.Claims = append(f.Claims, c)
			})
		}},
		{"ResourceSlices", func(ctx context.Context) error {
			return objects(ctx, r, allocation("resourceslices"), func(f *facts.Facts, s *resourcev1.ResourceSlice) {
				trimMeta(&s.ObjectMeta)
				f.Slices = append(f.Slices, s)
			})
		}},
	}
}

// waits reports whether a pod waits for a node.
func waits(p *corev1.Pod) bool { return p.Spec.NodeName == "" && p.Status.Phase == corev1.PodPending }
