package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/cause"
)

const draDriver = "gpu.nvidia.com"

func celOf(expressions ...string) (all []resourcev1.DeviceSelector) {
	for _, e := range expressions {
		all = append(all, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: e}})
	}
	return all
}

// dra returns a cluster whose nodes have two GPUs of 80 GiB, in ResourceSlices.
func dra(names ...string) *cluster {
	c := healthy(names...)
	for _, class := range [][2]string{{"gpu.nvidia.com", "gpu"}, {"mig.nvidia.com", "mig"}} {
		c.Classes = append(c.Classes, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: class[0]}, Spec: resourcev1.DeviceClassSpec{
			Selectors: celOf("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '" + class[1] + "'"),
		}})
	}
	for _, name := range names {
		c.node(name).Status.Capacity, c.node(name).Status.Allocatable = nil, nil
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
			Driver: draDriver, NodeName: new(name), Pool: resourcev1.ResourcePool{Name: name, Generation: 2},
		}}
		old := s.DeepCopy() // a slice of the generation before
		old.Spec.Pool.Generation = 1
		for i := range 2 {
			s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{
				Name: fmt.Sprintf("gpu-%d", i),
				Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
					"type": {StringValue: new("gpu")}, "productName": {StringValue: new("NVIDIA H100")}, "index": {IntValue: new(int64(i))},
				},
				Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
			})
		}
		old.Spec.Devices = []resourcev1.Device{{Name: "gpu-9", Attributes: s.Spec.Devices[0].Attributes}}
		c.Slices = append(c.Slices, old, s)
	}
	return c
}

// claim adds a claim for devices of a class.
func (c *cluster) claim(name, class string, count int64, expressions ...string) *resourcev1.ResourceClaim {
	one := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, CreationTimestamp: ago(time.Hour)}}
	one.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: class, Count: count, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Selectors: celOf(expressions...),
	}}}
	c.Claims = append(c.Claims, one)
	return one
}

// hold allocates devices of a node to a claim of a pod.
func (c *cluster) hold(pod, on string, devices ...string) *resourcev1.ResourceClaim {
	one := c.claim(pod+"-gpu", draDriver, int64(len(devices)))
	one.Status.Allocation = &resourcev1.AllocationResult{AllocationTimestamp: new(ago(2 * time.Hour))}
	for _, name := range devices {
		one.Status.Allocation.Devices.Results = append(one.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Request: "gpu", Driver: draDriver, Pool: on, Device: name})
	}
	one.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod}}
	return one
}

// claims adds a pod that waits for the claims.
func (c *cluster) claimant(claims ...string) *corev1.Pod {
	p := c.user("train", "", nil)
	p.Status.Conditions[0].Message = "0/2 nodes are available: 2 cannot allocate all claims."
	for _, name := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: new(name)})
	}
	return p
}

// TestClaims has a pod whose claim has no devices.
func TestClaims(t *testing.T) {
	const big = "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('100Gi'))"
	for name, tc := range map[string]struct {
		change func(c *cluster)
		want   cause.Code
		parts  []string
	}{
		"a claim that does not exist": {func(c *cluster) { c.claimant("wanted") }, cause.ClaimMissing, []string{"wanted: the ResourceClaim team/wanted does not exist"}},
		"a template that does not exist": {func(c *cluster) {
			c.claimant().Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("big")}}
			c.event("Pod", "team", "train", "FailedResourceClaimCreation", `resourceclaimtemplate "big" not found`)
		}, cause.ClaimMissing, []string{"from the ResourceClaimTemplate big", "not found"}},
		"a class that does not exist": {func(c *cluster) {
			c.claim("wanted", "gpus.nvidia.com", 1)
			c.claimant("wanted")
		}, cause.DeviceClassMissing, []string{"request gpu of the claim team/wanted", "gpus.nvidia.com", "gpu.nvidia.com, mig.nvidia.com"}},
		"no device of the class": {func(c *cluster) {
			c.claim("wanted", "mig.nvidia.com", 1)
			c.claimant("wanted")
		}, cause.NoDeviceMatches, []string{"none of 4 devices", "DeviceClass mig.nvidia.com", "type == 'mig'"}},
		"no device for a selector": {func(c *cluster) {
			c.claim("wanted", draDriver, 1, "device.attributes['gpu.nvidia.com'].index == 1", big)
			c.claimant("wanted")
		}, cause.NoDeviceMatches, []string{"none of 4 devices of the DeviceClass gpu.nvidia.com matches " + big}},
		"no device for two selectors together": {func(c *cluster) {
			c.claim("wanted", draDriver, 1, "device.attributes['gpu.nvidia.com'].index == 1", "device.attributes['gpu.nvidia.com'].index == 0")
			c.claimant("wanted")
		}, cause.NoDeviceMatches, []string{".index == 1 and device", ".index == 0"}},
		"a selector that fails": {func(c *cluster) {
			c.claim("wanted", draDriver, 1, "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'")
			c.claimant("wanted")
		}, cause.NoDeviceMatches, []string{"which fails: no such key: profile"}},
		"a selector that is none": {func(c *cluster) {
			c.claim("wanted", draDriver, 1, "device.")
			c.claimant("wanted")
		}, cause.NoDeviceMatches, []string{"which fails:", "Syntax error"}},
		"no plugin": {func(c *cluster) {
			c.Slices = nil
			c.claim("wanted", draDriver, 1)
			c.claimant("wanted")
		}, cause.NoDeviceMatches, []string{"no ResourceSlice has a device"}},
		"more devices than a node has": {func(c *cluster) {
			c.claim("wanted", draDriver, 3)
			c.claimant("wanted")
		}, cause.RequestTooLarge, []string{"needs 3 devices", "the largest node, a, has 2"}},
		"all devices are allocated": {func(c *cluster) {
			c.claim("wanted", draDriver, 1)
			c.claimant("wanted")
			c.hold("etl", "a", "gpu-0", "gpu-1")
			c.hold("serve", "b", "gpu-0")
			c.hold("other", "b", "gpu-1").Status.ReservedFor = nil
		}, cause.GPUsExhausted, []string{"it matches 4 devices of the DeviceClass gpu.nvidia.com on 2 nodes, and too few are free", "a: claim team/etl-gpu of team/etl has 2 since 120m", "claim team/other-gpu of no pod has 1"}},
		"all devices of each node are wanted": {func(c *cluster) {
			c.claim("wanted", draDriver, 0).Spec.Devices.Requests[0].Exactly.AllocationMode = resourcev1.DeviceAllocationModeAll
			c.claimant("wanted")
			c.hold("etl", "a", "gpu-0")
			c.hold("serve", "b", "gpu-1")
		}, cause.GPUsExhausted, []string{"claim team/serve-gpu of team/serve has 1"}},
		"one of two alternatives is allocated": {func(c *cluster) {
			one := c.claim("wanted", "none", 1)
			one.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", FirstAvailable: []resourcev1.DeviceSubRequest{
				{Name: "huge", DeviceClassName: draDriver, Selectors: celOf(big)}, {Name: "any", DeviceClassName: draDriver},
			}}}
			c.claimant("wanted")
			c.hold("etl", "a", "gpu-0", "gpu-1")
			c.hold("serve", "b", "gpu-0", "gpu-1")
		}, cause.GPUsExhausted, []string{"request gpu of the claim team/wanted, any"}},
		"devices of a resource name are allocated": {func(c *cluster) {
			c.Classes[0].Spec.ExtendedResourceName = new(gpu)
			c.user("train", "", map[string]int64{gpu: 2})
			c.hold("etl", "a", "gpu-0")
			c.hold("serve", "b", "gpu-0")
		}, cause.GPUsExhausted, []string{"the resource nvidia.com/gpu", "claim team/serve-gpu"}},
		"a device is free": {func(c *cluster) {
			c.claim("wanted", draDriver, 1)
			c.claimant("wanted")
			c.hold("etl", "a", "gpu-0", "gpu-1")
		}, cause.Unschedulable, []string{"2 cannot allocate all claims"}},
		"administrative access needs no free device": {func(c *cluster) {
			c.claim("wanted", draDriver, 1).Spec.Devices.Requests[0].Exactly.AdminAccess = new(true)
			c.claimant("wanted")
			c.hold("etl", "a", "gpu-0", "gpu-1")
			c.hold("serve", "b", "gpu-0", "gpu-1")
		}, cause.Unschedulable, nil},
		"administrative access holds no device": {func(c *cluster) {
			c.claim("wanted", draDriver, 2)
			c.claimant("wanted")
			c.hold("etl", "a", "gpu-0").Status.Allocation.Devices.Results[0].AdminAccess = new(true)
			c.hold("serve", "b", "gpu-0")
		}, cause.Unschedulable, nil},
		"the claims could not be read": {func(c *cluster) {
			c.claimant("wanted")
			c.Unseen = []facts.Unseen{{What: "ResourceClaims", Why: "forbidden"}}
		}, cause.Unschedulable, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := dra("a", "b")
			tc.change(c)
			r := doctor.Diagnose(c.Facts, ofTrain())
			if r.Findings[0].Code != tc.want {
				t.Fatalf("want %s, got:\n%s", tc.want, text(r))
			}
			for _, part := range tc.parts {
				if !strings.Contains(r.Findings[0].Evidence, part) {
					t.Errorf("no %q in %s", part, r.Findings[0].Evidence)
				}
			}
		})
	}
}

// TestWhoHoldsTheDevices has claims with devices, one of them shared by two pods.
func TestWhoHoldsTheDevices(t *testing.T) {
	c := dra("a", "b")
	c.claim("wanted", draDriver, 2)
	c.claimant("wanted")
	shared := c.hold("etl", "a", "gpu-0", "gpu-1")
	shared.Status.ReservedFor = append(shared.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "etl-2"})
	c.hold("serve", "b", "gpu-1")
	c.exporter("a", `{"processes":[{"gpu":0,"pid":5,"command":"python3","namespace":"team","pod":"etl-2"}]}`, "")
	c.exporter("b", `{"processes":[]}`, "")
	want := `  b: claim team/serve-gpu of team/serve has 1 gpu.nvidia.com since 120m; no process uses them
  a: claim team/etl-gpu of team/etl, team/etl-2 has 2 gpu.nvidia.com since 120m; python3 (pid 5) uses GPU 0
`
	r := doctor.Diagnose(c.Facts, ofTrain())
	if got := holders(r); got != want {
		t.Errorf("got:\n%s", got)
	}
	if d := r.Holders[0].Devices; len(d) != 1 || d[0] != "gpu-1" {
		t.Errorf("devices %v", d)
	}
}
