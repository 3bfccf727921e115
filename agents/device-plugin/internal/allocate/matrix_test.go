package allocate_test

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

// replicas is how often shared devices are advertised in the matrix.
const replicas = 4

// migDevices returns n MIG devices of each of so many GPUs.
func migDevices(gpus, n, replicas int) []resource.Device {
	var out []resource.Device
	for g := range gpus {
		for i := range n {
			out = append(out, resource.Device{
				UUID:     gpu.UUID(fmt.Sprintf("MIG-00000000-0000-4000-8000-%010x%02x", g, i)),
				Index:    fmt.Sprintf("%d:%d", g, i),
				GPU:      g,
				Replicas: replicas,
				Paths: []string{
					fmt.Sprintf("/dev/nvidia%d", g),
					fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", 100*g+2*i+1),
					fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", 100*g+2*i+2),
				},
			})
		}
	}
	return out
}

// wholeGPUs returns n GPUs.
func wholeGPUs(n, replicas int) []resource.Device {
	var out []resource.Device
	for i := range n {
		out = append(out, resource.Device{
			UUID:     gpu.UUID(fmt.Sprintf("GPU-00000000-0000-4000-8000-%012x", i)),
			Index:    fmt.Sprint(i),
			GPU:      i,
			Replicas: replicas,
			Paths:    []string{fmt.Sprintf("/dev/nvidia%d", i)},
		})
	}
	return out
}

// TestAllocateMatrix asks for two devices under each list strategy, with each
// id strategy, kind of device and way of sharing. Of shared ones it also asks
// for two replicas of one.
func TestAllocateMatrix(t *testing.T) {
	for list, lists := range map[string][]config.ListStrategy{
		"envvar":          {config.ListEnvvar},
		"volume-mounts":   {config.ListVolumeMounts},
		"cdi-annotations": {config.ListCDIAnnotations},
		"cdi-cri":         {config.ListCDICRI},
		"every strategy":  {config.ListEnvvar, config.ListVolumeMounts, config.ListCDIAnnotations, config.ListCDICRI},
	} {
		t.Run(list, func(t *testing.T) {
			answers := map[string]any{}
			for _, id := range []config.IDStrategy{config.IDUUID, config.IDIndex} {
				for _, c := range matrix() {
					a := allocate.New(c.res, allocate.Options{
						ListStrategies: lists, IDStrategy: id, CDIAnnotationPrefix: "cdi.k8s.io/",
						PassDeviceSpecs: true, OnlyCDI: config.Config{ListStrategies: lists}.OnlyCDI(),
						DevRoot: "/", ControlNodes: []string{"/dev/nvidiactl"}, MPSRoot: "/run/nvidia/mps",
					})
					resp, err := a.Allocate(c.ids, token)
					assert.NilError(t, err)
					answers[fmt.Sprintf("%s by %s", c.name, id)] = plain(t, resp)
				}
			}
			isAnswer(t, "matrix "+list, answers)
		})
	}
}

type request struct {
	name string
	res  resource.Resource
	ids  []string
}

func matrix() []request {
	var out []request
	for _, sharing := range []config.SharingStrategy{config.SharingNone, config.SharingTimeSlicing, config.SharingMPS} {
		n := replicas
		if sharing == config.SharingNone {
			n = 1
		}
		for kind, devices := range map[string][]resource.Device{
			"GPUs": wholeGPUs(2, n), "MIG devices": migDevices(1, 2, n),
		} {
			for i := range devices {
				devices[i].MPS = sharing == config.SharingMPS
			}
			res := resource.Resource{Name: "nvidia.com/gpu", Sharing: sharing, Devices: devices}
			first, second := devices[0], devices[1]
			how := "unshared"
			if n > 1 {
				how = string(sharing)
				out = append(out, request{
					name: fmt.Sprintf("two replicas of one of the %s, %s,", kind, how),
					res:  res, ids: []string{second.ID(3), second.ID(1)},
				})
			}
			out = append(out, request{
				name: fmt.Sprintf("two %s, %s,", kind, how),
				res:  res, ids: []string{second.ID(0), first.ID(n - 1)},
			})
		}
	}
	return out
}
