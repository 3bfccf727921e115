package generate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/agents/container-toolkit/internal/generate"
	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

func node(name string) driverroot.DeviceNode {
	return driverroot.DeviceNode{HostPath: "/dev/" + name, Path: "/dev/" + name, Mode: 0o666}
}

// content is a driver with all device nodes for the GPUs, and with optional hardware.
func content(gpus []gpu.GPU) *driverroot.Content {
	c := &driverroot.Content{
		Version: "580.95.05",
		Libraries: []driverroot.Library{{
			File:  driverroot.File{HostPath: "/usr/lib64/libcuda.so.580.95.05", Path: "/usr/lib64/libcuda.so.580.95.05"},
			Names: []string{"libcuda.so.1", "libcuda.so"},
		}},
		Control: []driverroot.DeviceNode{node("nvidia-uvm"), node("nvidiactl")},
		GPUs:    map[int]driverroot.DeviceNode{},
		Caps:    map[int]driverroot.DeviceNode{1: node("nvidia-caps/nvidia-cap1"), 2: node("nvidia-caps/nvidia-cap2")},
		Extras: driverroot.Extras{
			IMEX:     map[int]driverroot.DeviceNode{0: node("nvidia-caps-imex-channels/channel0")},
			GDS:      driverroot.Part{Nodes: []driverroot.DeviceNode{node("nvidia-fs0")}},
			NVSwitch: driverroot.Part{Nodes: []driverroot.DeviceNode{node("nvidia-nvswitch0"), node("nvidia-nvswitchctl")}},
		},
	}
	for _, g := range gpus {
		c.GPUs[g.Minor] = node(fmt.Sprintf("nvidia%d", g.Minor))
		for i := 0; g.MIG != nil && i < len(g.MIG.Devices); i++ {
			m := g.MIG.Devices[i]
			for _, minor := range []int{m.GPUInstanceCap, m.ComputeInstanceCap} {
				c.Caps[minor] = node(fmt.Sprintf("nvidia-caps/nvidia-cap%d", minor))
			}
		}
	}
	return c
}

// partitioned is a node of two GPUs, of which the second has two MIG devices.
func partitioned() *gpu.Node {
	return gputest.Partition(gputest.Node(gputest.A100, 2), 1, "3g.20gb", "1g.5gb")
}

// derive returns the specs of the modes by their kinds.
func derive(t *testing.T, o generate.Options, c *driverroot.Content, n *gpu.Node, modes ...generate.Mode) map[string]*specs.Spec {
	t.Helper()
	got, unresolved, err := cdi.Specs(c, n.GPUs, o.Requests(modes...)...)
	if err != nil || len(unresolved) > 0 {
		t.Fatalf("Specs(): unresolved %v, error %v", unresolved, err)
	}
	out := map[string]*specs.Spec{}
	for _, s := range got {
		out[s.Kind] = s
	}
	return out
}

// nodes returns the names of the devices of a spec with their device nodes.
func nodes(s *specs.Spec) map[string]string {
	out := map[string]string{}
	for _, d := range s.Devices {
		var paths []string
		for _, n := range d.ContainerEdits.DeviceNodes {
			paths = append(paths, strings.TrimPrefix(n.Path, "/dev/"))
		}
		out[d.Name] = strings.Join(append(paths, d.ContainerEdits.Env...), " ")
	}
	return out
}

func TestKindsAndNames(t *testing.T) {
	n := partitioned()
	m0, m1 := n.GPUs[1].MIG.Devices[0], n.GPUs[1].MIG.Devices[1]
	caps := func(m gpu.MIGDevice) string {
		return fmt.Sprintf("nvidia-caps/nvidia-cap%d nvidia-caps/nvidia-cap%d", m.GPUInstanceCap, m.ComputeInstanceCap)
	}
	both := strings.Fields(caps(m0) + " " + caps(m1))
	slices.Sort(both)
	second := strings.Join(append(both, "nvidia1"), " ")
	all := strings.Join(append(slices.Clone(both), "nvidia0", "nvidia1"), " ")
	control := []string{"nvidia-uvm", "nvidiactl", "nvidia-caps/nvidia-cap1", "nvidia-caps/nvidia-cap2", "nvidia0", "nvidia1", "nvidia-caps-imex-channels/channel0"}
	whole := append(control, both...)
	slices.Sort(whole)
	want := map[string]map[string]string{
		"nvidia.com/gpu": {
			"0": "nvidia0", string(n.GPUs[0].UUID): "nvidia0", "00000000:07:00.0": "nvidia0", "0000:07:00.0": "nvidia0",
			"1": second, string(n.GPUs[1].UUID): second, "00000000:0f:00.0": second, "0000:0f:00.0": second,
			"1:0": sorted(caps(m0) + " nvidia1"), string(m0.UUID): sorted(caps(m0) + " nvidia1"),
			"1:1": sorted(caps(m1) + " nvidia1"), string(m1.UUID): sorted(caps(m1) + " nvidia1"),
			"all": all, "none": "NVCT_EMPTY_DEVICE=",
		},
		"management.nvidia.com/gpu": {"all": strings.Join(whole, " ")},
		"management.nvidia.com/mig": {"config": "nvidia-caps/nvidia-cap1", "monitor": "nvidia-caps/nvidia-cap2"},
		"nvidia.com/imex-channel":   {"channel0": "nvidia-caps-imex-channels/channel0", "0": "nvidia-caps-imex-channels/channel0"},
		"nvidia.com/gds":            {"all": "nvidia-fs0"},
		"nvidia.com/nvswitch":       {"all": "nvidia-nvswitch0 nvidia-nvswitchctl"},
	}
	got := map[string]map[string]string{}
	for kind, s := range derive(t, generate.Options{}, content(n.GPUs), n, generate.Modes()...) {
		got[kind] = nodes(s)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("specs (-want +got):\n%s", d)
	}
}

func sorted(words string) string {
	list := strings.Fields(words)
	slices.Sort(list)
	return strings.Join(list, " ")
}

// Names as Podman 3 knows them need version 0.3.0, others 0.5.0; nothing needs more.
func TestVersionIsTheLowestThatTheContentNeeds(t *testing.T) {
	for want, o := range map[string]generate.Options{
		"0.5.0": {},
		"0.3.0": {Names: []cdi.Namer{cdi.ByUUID}},
	} {
		n := partitioned()
		if got := derive(t, o, content(n.GPUs), n, generate.GPUs)["nvidia.com/gpu"].Version; got != want {
			t.Errorf("cdiVersion is %s, want %s", got, want)
		}
	}
}

// A pod that manages a node sees all GPUs: no hook hides those of others.
func TestHooksOfManagement(t *testing.T) {
	n := partitioned()
	got := derive(t, generate.Options{HookPath: "/usr/bin/nvidia-cdi-hook"}, content(n.GPUs), n, generate.GPUs, generate.Management, generate.GDS)
	has := func(kind, job string) bool {
		text, err := json.Marshal(got[kind].ContainerEdits.Hooks)
		assert.NilError(t, err)
		return strings.Contains(string(text), job)
	}
	for _, hook := range []string{"disable-device-node-modification", "update-application-profile"} {
		if !has("nvidia.com/gpu", hook) || has("management.nvidia.com/gpu", hook) {
			t.Errorf("%s: GPUs %v, management %v, want it for GPUs alone", hook, has("nvidia.com/gpu", hook), has("management.nvidia.com/gpu", hook))
		}
	}
	if !has("management.nvidia.com/gpu", "/usr/lib64") || len(got["nvidia.com/gds"].ContainerEdits.Hooks) > 0 {
		t.Error("management lacks the loader cache, or optional hardware has hooks")
	}
}

// What works and cannot be described leaves no spec at all.
func TestCompleteOrNotAtAll(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(*gpu.Node, *driverroot.Content)
		only   []string
		want   string
	}{
		"a GPU without device node": {damage: func(_ *gpu.Node, c *driverroot.Content) { delete(c.GPUs, 0) }, want: "nvidia0 is missing"},
		"a MIG device without capability": {
			damage: func(n *gpu.Node, c *driverroot.Content) { delete(c.Caps, n.GPUs[1].MIG.Devices[1].ComputeInstanceCap) }, want: "nvidia-cap",
		},
		"a GPU that was not asked for": {damage: func(_ *gpu.Node, c *driverroot.Content) { delete(c.GPUs, 0) }, only: []string{"1"}},
		"a GPU that fails": {damage: func(n *gpu.Node, c *driverroot.Content) {
			n.GPUs[0].Fault = &gpu.Fault{Op: "x", Reason: "lost"}
			delete(c.GPUs, 0)
		}},
		"a device that does not exist": {damage: func(*gpu.Node, *driverroot.Content) {}, only: []string{"0", "7"}, want: "describe 7: the node has no such GPU"},
	} {
		t.Run(name, func(t *testing.T) {
			n := partitioned()
			has := content(n.GPUs)
			c.damage(n, has)
			got, _, err := cdi.Specs(has, n.GPUs, generate.Options{Only: c.only}.Requests(generate.GPUs)...)
			if c.want == "" {
				if err != nil || len(got) != 1 {
					t.Errorf("Specs() = %v, %v, want one spec", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || len(got) > 0 {
				t.Errorf("Specs() = %v, %v, want no spec and an error with %q", got, err, c.want)
			}
		})
	}
}

func TestOnly(t *testing.T) {
	n := partitioned()
	mig := n.GPUs[1].MIG.Devices[0]
	for name, c := range map[string]struct {
		only []string
		want []string
	}{
		"a GPU by index":                {[]string{"0"}, []string{"0", "all", "none"}},
		"a GPU by UUID":                 {[]string{string(n.GPUs[0].UUID)}, []string{"0", "all", "none"}},
		"a GPU by its PCI bus ID":       {[]string{"0000:07:00.0"}, []string{"0", "all", "none"}},
		"a GPU by NVML's bus ID":        {[]string{"00000000:07:00.0"}, []string{"0", "all", "none"}},
		"a GPU with its MIG devices":    {[]string{"1"}, []string{"1", "1:0", "1:1", "all", "none"}},
		"a MIG device by its indices":   {[]string{"1:0"}, []string{"1:0", "all", "none"}},
		"a MIG device by UUID":          {[]string{string(mig.UUID)}, []string{"1:0", "all", "none"}},
		"a MIG device by its instances": {[]string{fmt.Sprintf("MIG-%s/%d/%d", n.GPUs[1].UUID, mig.GPUInstance, mig.ComputeInstance)}, []string{"1:0", "all", "none"}},
		"several":                       {[]string{"0", "1:1"}, []string{"0", "1:1", "all", "none"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := nodes(derive(t, generate.Options{Only: c.only, Names: []cdi.Namer{cdi.ByIndex}}, content(n.GPUs), n, generate.GPUs)["nvidia.com/gpu"])
			var names, rest []string
			for name, nodes := range got {
				names = append(names, name)
				if name != "all" && name != "none" {
					rest = append(rest, strings.Fields(nodes)...)
				}
			}
			slices.Sort(names)
			if d := cmp.Diff(c.want, names); d != "" {
				t.Errorf("devices (-want +got):\n%s", d)
			}
			slices.Sort(rest)
			if d := cmp.Diff(strings.Join(slices.Compact(rest), " "), got["all"]); d != "" {
				t.Errorf("all is not the rest (-rest +all):\n%s", d)
			}
		})
	}
}

func TestNoAll(t *testing.T) {
	n := partitioned()
	if _, ok := nodes(derive(t, generate.Options{NoAll: true}, content(n.GPUs), n, generate.GPUs)["nvidia.com/gpu"])["all"]; ok {
		t.Error("the spec has the device all")
	}
}

func TestNoGPUsNoSpec(t *testing.T) {
	if got := derive(t, generate.Options{}, content(nil), &gpu.Node{}, generate.GPUs); len(got) > 0 {
		t.Errorf("a node without GPUs has the specs %v", got)
	}
}

func TestVendorAndClass(t *testing.T) {
	o := generate.Options{Vendor: "example.com", Class: "accelerator"}
	want := []string{"example.com/accelerator", "management.example.com/accelerator", "management.example.com/mig", "example.com/imex-channel", "example.com/gds", "example.com/mofed", "example.com/gdrcopy", "example.com/nvswitch"}
	if d := cmp.Diff(want, o.Kinds(generate.Modes()...)); d != "" {
		t.Errorf("kinds (-want +got):\n%s", d)
	}
}
