package cdi_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/driverroot"
)

func TestSpecsOfExtras(t *testing.T) {
	const root = "/run/nvidia/driver"
	node := func(name string) driverroot.DeviceNode {
		return driverroot.DeviceNode{HostPath: path.Join(root, "dev", name), Path: "/dev/" + name, Mode: 0o666}
	}
	file := func(p string) driverroot.File { return driverroot.File{HostPath: root + p, Path: p} }
	x := driverroot.Extras{
		IMEX:    map[int]driverroot.DeviceNode{0: node("nvidia-caps-imex-channels/channel0"), 7: node("nvidia-caps-imex-channels/channel7")},
		GDRCopy: driverroot.Part{Nodes: []driverroot.DeviceNode{node("gdrdrv")}},
		GDS: driverroot.Part{
			Nodes: []driverroot.DeviceNode{node("nvidia-fs0"), node("nvidia-fs1")},
			Files: []driverroot.File{file("/etc/cufile.json"), file("/run/udev")},
		},
		MOFED: driverroot.Part{Nodes: []driverroot.DeviceNode{node("infiniband/rdma_cm"), node("infiniband/uverbs0")}},
	}
	for class, devices := range map[string][]cdi.Device{
		"imex-channel": cdi.Channels(x, []int{7, 0, 3}),
		"gdrcopy":      cdi.Whole(x.GDRCopy),
		"gds":          cdi.Whole(x.GDS),
		"mofed":        cdi.Whole(x.MOFED),
	} {
		t.Run(class, func(t *testing.T) {
			got, _, err := cdi.Specs(nil, nil, given(cdi.Options{Kind: vendor + "/" + class, Bare: true}, devices...))
			if err != nil || len(got) != 1 {
				t.Fatalf("Specs() = %v, %v, want one spec", got, err)
			}
			isSpec(t, class+".golden", got[0])
			validate(t, got[0])
		})
	}
}

func TestAbsentExtrasAreNoDevices(t *testing.T) {
	if got := cdi.Channels(driverroot.Extras{}, []int{0}); len(got) > 0 {
		t.Errorf("channels are %v", got)
	}
	if got := cdi.Whole(driverroot.Part{}); len(got) > 0 {
		t.Errorf("devices are %v", got)
	}
	if got, _, err := cdi.Specs(nil, nil, given(cdi.Options{Kind: vendor + "/gds", Bare: true})); err != nil || len(got) > 0 {
		t.Errorf("Specs() without devices = %v, %v, want no spec", got, err)
	}
}

func TestParseFeatures(t *testing.T) {
	for name, c := range map[string]struct {
		flags, hooks []string
		want         cdi.Features
		void, err    []string
	}{
		"none": {},
		"those that have an effect": {
			flags: []string{"no-additional-gids-for-device-nodes", "disable-ipc-discoverer"}, hooks: []string{"enable-cuda-compat", "update-ldcache"},
			want: cdi.Features{NoAdditionalGIDs: true, NoSockets: true, DisabledHooks: []string{"enable-cuda-compat", "update-ldcache"}},
		},
		"those that have none": {
			flags: []string{"enable-explicit-driver-libraries", "disable-nvsandboxutils", "disable-multiple-csv-devices", "enable-coherent-annotations"},
			hooks: []string{"chmod"},
			void: []string{
				"enable-explicit-driver-libraries: a spec always", "disable-nvsandboxutils: libnvidia", "disable-multiple-csv-devices: it concerns Tegra",
				"enable-coherent-annotations: no annotation", "chmod: a spec never",
			},
		},
		"all hooks": {hooks: []string{"all"}, want: cdi.Features{DisabledHooks: []string{"all"}}},
		"unknown values, all in one error": {
			flags: []string{"fast", "disable-ipc-discoverer", "faster"}, hooks: []string{"ldconfig"},
			err: []string{`cdi-feature-flags: unknown value "fast": use any of disable-ipc-discoverer, `, `"faster"`, `cdi-disable-hooks: unknown value "ldconfig": use any of all, chmod, `},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, void, err := cdi.ParseFeatures(c.flags, c.hooks)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("features (-want +got):\n%s", d)
			}
			if len(void) != len(c.void) {
				t.Errorf("void are %q, want %d", void, len(c.void))
			}
			for i, want := range c.void {
				if i < len(void) && !strings.HasPrefix(void[i], want) {
					t.Errorf("void has %q, want %q", void[i], want)
				}
			}
			if (err != nil) != (len(c.err) > 0) {
				t.Fatalf("error is %v, want %q", err, c.err)
			}
			for _, want := range c.err {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
}

func TestFeatures(t *testing.T) {
	const hook = "/usr/bin/nvidia-cdi-hook"
	byName := "/usr/lib64/libcuda.so.1"
	for name, c := range map[string]struct {
		options cdi.Options
		// hooks are the names of those that run.
		hooks          []string
		byName, socket bool
		gids           []uint32
	}{
		"without hooks": {byName: true, socket: true, gids: []uint32{44}},
		"with hooks": {
			options: cdi.Options{HookPath: hook}, socket: true, gids: []uint32{44},
			hooks: []string{"create-symlinks", "enable-cuda-compat", "update-ldcache", "disable-device-node-modification", "update-application-profile"},
		},
		"without some": {
			options: cdi.Options{HookPath: hook, Features: cdi.Features{DisabledHooks: []string{"enable-cuda-compat", "update-application-profile"}}},
			hooks:   []string{"create-symlinks", "update-ldcache", "disable-device-node-modification"}, socket: true, gids: []uint32{44},
		},
		"without the hook that updates the loader cache, libraries are mounted by name": {
			options: cdi.Options{HookPath: hook, Features: cdi.Features{DisabledHooks: []string{"update-ldcache"}}},
			hooks:   []string{"create-symlinks", "enable-cuda-compat", "disable-device-node-modification", "update-application-profile"},
			byName:  true, socket: true, gids: []uint32{44},
		},
		"without any, as without a hook path": {
			options: cdi.Options{HookPath: hook, Features: cdi.Features{DisabledHooks: []string{"all"}}},
			byName:  true, socket: true, gids: []uint32{44},
		},
		"one hook": {
			options: cdi.Options{HookPath: hook, OneHook: true}, socket: true, gids: []uint32{44}, hooks: []string{"prepare-container"},
		},
		"one hook that does not update the loader cache": {
			options: cdi.Options{HookPath: hook, OneHook: true, Features: cdi.Features{DisabledHooks: []string{"update-ldcache"}}},
			hooks:   []string{"prepare-container"}, byName: true, socket: true, gids: []uint32{44},
		},
		"one hook without a job": {
			options: cdi.Options{HookPath: hook, OneHook: true, Features: cdi.Features{DisabledHooks: []string{"all"}}},
			byName:  true, socket: true, gids: []uint32{44},
		},
		"without groups":  {options: cdi.Options{Features: cdi.Features{NoAdditionalGIDs: true}}, byName: true, socket: true},
		"without sockets": {options: cdi.Options{Features: cdi.Features{NoSockets: true}}, byName: true, gids: []uint32{44}},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Kind = kind
			edits := build(t, restricted(content("/", "/usr/lib/x86_64-linux-gnu", 1)), c.options).ContainerEdits
			var hooks []string
			for _, h := range edits.Hooks {
				hooks = append(hooks, h.Args[1])
			}
			if d := cmp.Diff(c.hooks, hooks); d != "" {
				t.Errorf("hooks (-want +got):\n%s", d)
			}
			if got := mounted(edits, byName); got != c.byName {
				t.Errorf("%s is mounted: %v, want %v", byName, got, c.byName)
			}
			if got := mounted(edits, "/run/nvidia-persistenced/socket"); got != c.socket {
				t.Errorf("the socket is mounted: %v, want %v", got, c.socket)
			}
			if d := cmp.Diff(c.gids, edits.AdditionalGIDs); d != "" {
				t.Errorf("additional groups (-want +got):\n%s", d)
			}
		})
	}
}

func mounted(edits specs.ContainerEdits, at string) bool {
	return slices.ContainsFunc(edits.Mounts, func(m *specs.Mount) bool { return m.ContainerPath == at })
}
