package allocate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

const (
	gpu0  = "GPU-00000000-0000-4000-8000-000000000000"
	gpu1  = "GPU-00000000-0000-4000-8000-000000000001"
	gpu3  = "GPU-00000000-0000-4000-8000-000000000003"
	token = "6d2ef6a5-0d31-4a55-9dbd-0f2a1b0c3d4e"
)

func allocator(t *testing.T, opts allocate.Options) *allocate.Allocator {
	t.Helper()
	set := resource.Derive(gputest.Node(gputest.A100, 4), health.View{}, config.Config{})
	if len(set.Resources) != 1 {
		t.Fatalf("%d resources, want 1", len(set.Resources))
	}
	return allocate.New(set.Resources[0], opts)
}

func TestAllocateGolden(t *testing.T) {
	everything := allocate.Extras{
		GDS: true, MOFED: true, GDRCopy: true, IMEXChannels: []int{0},
		CDIClasses: []string{allocate.CDIClassMOFED, allocate.CDIClassGDS, allocate.CDIClassGDRCopy, allocate.CDIClassIMEX},
	}
	control := []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}
	for name, tc := range map[string]struct {
		lists  []config.ListStrategy
		id     config.IDStrategy
		prefix string
		specs  bool
		root   string
		ids    []string
		extras allocate.Extras
	}{
		"envvar names the UUIDs in the order of the request": {
			lists: []config.ListStrategy{config.ListEnvvar}, ids: []string{gpu3, gpu0},
		},
		"envvar names indices": {
			lists: []config.ListStrategy{config.ListEnvvar}, id: config.IDIndex, ids: []string{gpu3, gpu0},
		},
		"cdi-cri names CDI devices": {
			lists: []config.ListStrategy{config.ListCDICRI}, ids: []string{gpu1, gpu3},
		},
		"cdi-cri by index": {
			lists: []config.ListStrategy{config.ListCDICRI}, id: config.IDIndex, ids: []string{gpu1},
		},
		"cdi-annotations join the names": {
			lists: []config.ListStrategy{config.ListCDIAnnotations}, ids: []string{gpu1, gpu3},
		},
		"cdi-annotations with the prefix of the gpu operator": {
			lists: []config.ListStrategy{config.ListCDIAnnotations}, prefix: "nvidia.cdi.k8s.io/", ids: []string{gpu1},
		},
		"envvar with device specs": {
			lists: []config.ListStrategy{config.ListEnvvar}, specs: true, ids: []string{gpu0, gpu3},
		},
		"device specs of a driver container": {
			lists: []config.ListStrategy{config.ListEnvvar}, specs: true, root: "/run/nvidia/driver", ids: []string{gpu1},
		},
		"cdi alone passes no device specs": {
			lists: []config.ListStrategy{config.ListCDICRI}, specs: true, ids: []string{gpu1},
		},
		"all strategies together": {
			lists: []config.ListStrategy{config.ListEnvvar, config.ListCDIAnnotations, config.ListCDICRI},
			specs: true, ids: []string{gpu0, gpu1},
		},
		"volume-mounts name the UUIDs in the order of the request": {
			lists: []config.ListStrategy{config.ListVolumeMounts}, ids: []string{gpu3, gpu0},
		},
		"volume-mounts with device specs": {
			lists: []config.ListStrategy{config.ListVolumeMounts}, specs: true, ids: []string{gpu0},
		},
		"envvar refers to the mounts where both are chosen": {
			lists: []config.ListStrategy{config.ListVolumeMounts, config.ListEnvvar}, ids: []string{gpu0},
		},
		"envvar with all extras": {
			lists: []config.ListStrategy{config.ListEnvvar}, specs: true, ids: []string{gpu0}, extras: everything,
		},
		"volume-mounts with all extras": {
			lists: []config.ListStrategy{config.ListVolumeMounts}, specs: true, ids: []string{gpu0}, extras: everything,
		},
		"cdi-cri with all extras": {
			lists: []config.ListStrategy{config.ListCDICRI}, specs: true, ids: []string{gpu0}, extras: everything,
		},
		"cdi-annotations with all extras": {
			lists: []config.ListStrategy{config.ListCDIAnnotations}, ids: []string{gpu0}, extras: everything,
		},
		"cdi names only the extras of which there is a spec": {
			lists: []config.ListStrategy{config.ListCDICRI}, ids: []string{gpu0},
			extras: allocate.Extras{GDS: true, MOFED: true, IMEXChannels: []int{0}, CDIClasses: []string{"mofed", "gdrcopy"}},
		},
		"all strategies and all extras together": {
			lists: []config.ListStrategy{config.ListEnvvar, config.ListVolumeMounts, config.ListCDIAnnotations, config.ListCDICRI},
			specs: true, ids: []string{gpu0, gpu1}, extras: everything,
		},
		"a device that is named twice counts once": {
			lists: []config.ListStrategy{config.ListEnvvar, config.ListCDICRI}, specs: true, ids: []string{gpu0, gpu0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Config{ListStrategies: tc.lists}
			opts := allocate.Options{
				ListStrategies: tc.lists, IDStrategy: config.IDUUID, CDIAnnotationPrefix: "cdi.k8s.io/",
				PassDeviceSpecs: tc.specs, OnlyCDI: cfg.OnlyCDI(), DevRoot: "/", ControlNodes: control,
				Extras: tc.extras,
			}
			if tc.id != "" {
				opts.IDStrategy = tc.id
			}
			if tc.prefix != "" {
				opts.CDIAnnotationPrefix = tc.prefix
			}
			if tc.root != "" {
				opts.DevRoot = tc.root
			}
			got, err := allocator(t, opts).Allocate(tc.ids, token)
			assert.NilError(t, err)
			isAnswer(t, name, plain(t, got))
		})
	}
}

// plain returns the JSON form of an answer, in an order that does not change.
func plain(t *testing.T, resp *pluginapi.ContainerAllocateResponse) any {
	t.Helper()
	raw, err := protojson.Marshal(resp)
	assert.NilError(t, err)
	var v any
	assert.NilError(t, json.Unmarshal(raw, &v))
	return v
}

func isAnswer(t *testing.T, name string, got any) {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetIndent("", "  ")
	assert.NilError(t, enc.Encode(got))
	golden.Assert(t, buf.String(), strings.ReplaceAll(name, " ", "_")+".golden")
}

// The runtime rejects a container whose annotation names no CDI device.
func TestNoDevicesHaveNoAnnotation(t *testing.T) {
	got, err := allocator(t, allocate.Options{
		ListStrategies: []config.ListStrategy{config.ListCDIAnnotations}, CDIAnnotationPrefix: "cdi.k8s.io/",
	}).Allocate(nil, token)
	assert.NilError(t, err)
	if len(got.GetAnnotations()) > 0 {
		t.Errorf("annotations %v, want none", got.GetAnnotations())
	}
}

func TestAllocateRejectsUnknownDevices(t *testing.T) {
	a := allocate.New(resource.Resource{Devices: []resource.Device{
		{UUID: gpu0, Replicas: 1},
		{UUID: gpu1, Replicas: 12},
	}}, allocate.Options{ListStrategies: []config.ListStrategy{config.ListEnvvar}})
	if _, err := a.Allocate([]string{gpu0, gpu1 + "::0", gpu1 + "::11"}, token); err != nil {
		t.Fatal(err)
	}
	for name, id := range map[string]string{
		"another GPU":                     "GPU-gone",
		"another GPU's replica":           "GPU-gone::0",
		"a shared GPU without replica":    gpu1,
		"a replica of an unshared GPU":    gpu0 + "::0",
		"a replica too many":              gpu1 + "::12",
		"a negative replica":              gpu1 + "::-1",
		"a replica with a sign":           gpu1 + "::+1",
		"a replica with a leading zero":   gpu1 + "::01",
		"a replica without number":        gpu1 + "::",
		"a replica that is no number":     gpu1 + "::x",
		"a replica after a single colon":  gpu1 + ":1",
		"a replica after three colons":    gpu1 + ":::1",
		"a replica of a replica":          gpu1 + "::1::1",
		"a number that does not fit":      gpu1 + "::99999999999999999999",
		"an empty id":                     "",
		"a replica of nothing":            "::1",
		"nothing but the end of a number": ":1",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.Allocate([]string{gpu0, id}, token)
			var unknown allocate.UnknownDeviceError
			if !errors.As(err, &unknown) || unknown.ID != id {
				t.Fatalf("error is %v, want an unknown device %q", err, id)
			}
			if want := "invalid request: unknown device: " + id; err.Error() != want {
				t.Errorf("error is %q, want %q", err, want)
			}
		})
	}
}

func TestAllocateRejectsSeveralReplicas(t *testing.T) {
	res := resource.Resource{
		Name: "nvidia.com/gpu.shared", Sharing: config.SharingTimeSlicing, FailRequestsGreaterThanOne: true,
		Devices: []resource.Device{{UUID: gpu0, Replicas: 1}, {UUID: gpu1, Replicas: 1}, {UUID: gpu3, Replicas: 4}},
	}
	a := allocate.New(res, allocate.Options{ListStrategies: []config.ListStrategy{config.ListEnvvar}})
	for name, tc := range map[string]struct {
		ids  []string
		want string
	}{
		"one replica":                         {ids: []string{gpu3 + "::2"}},
		"two whole devices":                   {ids: []string{gpu0, gpu1}},
		"two replicas":                        {ids: []string{gpu3 + "::2", gpu3 + "::0"}, want: "invalid request: maximum request size for shared resources is 1; found 2"},
		"a replica beside whole devices":      {ids: []string{gpu0, gpu1, gpu3 + "::1"}, want: "invalid request: maximum request size for shared resources is 1; found 3"},
		"an unknown device is reported first": {ids: []string{gpu3 + "::1", gpu3 + "::4"}, want: "invalid request: unknown device: " + gpu3 + "::4"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.Allocate(tc.ids, token)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("error is %q, want %q", got, tc.want)
			}
		})
	}
}

// An index that another program would take for another device is not passed.
func TestIndicesThatAreNotSafe(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*resource.Device)
		// live and cdi are the names for NVIDIA's runtime, which asks NVML, and of CDI devices.
		live, cdi string
	}{
		"an index that NVML has too":            {func(*resource.Device) {}, "1", "1"},
		"an index that is another GPU for NVML": {func(d *resource.Device) { d.Shifted = true }, gpu1, "1"},
		"an index that named another GPU":       {func(d *resource.Device) { d.Reused = true }, gpu1, gpu1},
	} {
		t.Run(name, func(t *testing.T) {
			res := resource.Derive(gputest.Node(gputest.A100, 4), health.View{}, config.Config{}).Resources[0]
			tc.change(&res.Devices[1])
			for _, list := range []config.ListStrategy{config.ListEnvvar, config.ListVolumeMounts, config.ListCDICRI, config.ListCDIAnnotations} {
				resp, err := allocate.New(res, allocate.Options{ListStrategies: []config.ListStrategy{list}, IDStrategy: config.IDIndex}).Allocate([]string{gpu1}, token)
				assert.NilError(t, err)
				got, want := protojson.Format(resp), tc.live
				if list == config.ListCDICRI || list == config.ListCDIAnnotations {
					want = "gpu=" + tc.cdi
				}
				if !strings.Contains(got, want+`"`) || want != gpu1 && want != "gpu="+gpu1 && strings.Contains(got, gpu1) {
					t.Errorf("%s passes %s, want %s", list, got, want)
				}
			}
		})
	}
}
