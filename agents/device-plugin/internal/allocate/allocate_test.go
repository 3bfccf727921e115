package allocate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/agents/device-plugin/internal/config"
	"outrigger.dev/agents/device-plugin/internal/health"
	"outrigger.dev/agents/device-plugin/internal/resource"
	"outrigger.dev/pkg/gpu/gputest"
)

var update = flag.Bool("update", false, "write the golden files")

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
	control := []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}
	for name, tc := range map[string]struct {
		lists  []config.ListStrategy
		id     config.IDStrategy
		prefix string
		specs  bool
		root   string
		ids    []string
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
		"a device that is named twice counts once": {
			lists: []config.ListStrategy{config.ListEnvvar, config.ListCDICRI}, specs: true, ids: []string{gpu0, gpu0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Config{ListStrategies: tc.lists}
			opts := allocate.Options{
				ListStrategies: tc.lists, IDStrategy: config.IDUUID, CDIAnnotationPrefix: "cdi.k8s.io/",
				PassDeviceSpecs: tc.specs, OnlyCDI: cfg.OnlyCDI(), DevRoot: "/", ControlNodes: control,
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
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, got)
		})
	}
}

func golden(t *testing.T, name string, resp *pluginapi.ContainerAllocateResponse) {
	t.Helper()
	raw, err := protojson.Marshal(resp)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", strings.ReplaceAll(name, " ", "_")+".golden")
	if *update {
		if err := os.WriteFile(path, buf.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), buf.String()); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func TestAllocateRefusesUnknownDevices(t *testing.T) {
	a := allocator(t, allocate.Options{ListStrategies: []config.ListStrategy{config.ListEnvvar}})
	_, err := a.Allocate([]string{gpu0, "GPU-gone"}, token)
	var unknown allocate.UnknownDeviceError
	if !errors.As(err, &unknown) || unknown.ID != "GPU-gone" {
		t.Fatalf("error is %v, want an unknown device GPU-gone", err)
	}
	if want := "invalid request: unknown device: GPU-gone"; err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
}

func TestPreferred(t *testing.T) {
	all := []string{gpu3, gpu1, gpu0}
	for name, tc := range map[string]struct {
		available, must []string
		size            int
		want            []string
		malformed       bool
	}{
		"the first in the order of the node":         {available: all, size: 2, want: []string{gpu0, gpu1}},
		"what must be included comes along":          {available: all, must: []string{gpu3}, size: 2, want: []string{gpu0, gpu3}},
		"only what must be included":                 {available: all, must: []string{gpu3}, size: 1, want: []string{gpu3}},
		"all":                                        {available: all, size: 3, want: []string{gpu0, gpu1, gpu3}},
		"fewer than asked for":                       {available: all, size: 8, want: []string{gpu0, gpu1, gpu3}},
		"none":                                       {available: all, size: 0},
		"unknown devices come last":                  {available: []string{"GPU-z", "GPU-a", gpu1}, size: 2, want: []string{gpu1, "GPU-a"}},
		"a negative size is refused":                 {available: all, size: -1, malformed: true},
		"more musts than devices are refused":        {available: all, must: []string{gpu0, gpu1}, size: 1, malformed: true},
		"a must that is not available is refused":    {available: []string{gpu0}, must: []string{gpu1}, size: 1, malformed: true},
		"the same available device counts only once": {available: []string{gpu0, gpu0, gpu1}, size: 2, want: []string{gpu0, gpu1}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := allocator(t, allocate.Options{}).Preferred(tc.available, tc.must, tc.size)
			var malformed allocate.MalformedRequestError
			if errors.As(err, &malformed) != tc.malformed {
				t.Fatalf("error is %v, want malformed = %v", err, tc.malformed)
			}
			if tc.malformed {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		})
	}
}
