package loader_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/holders"
	"outrigger.dev/pkg/pci"
)

// gpu is a GPU that a driver has, "" for none.
func gpu(driver string) pci.Device {
	return pci.Device{BusID: "0000:17:00.0", Vendor: 0x10de, Product: 0x2330, Class: 0x030200, Driver: driver}
}

// driver is version 1 or 2 in the store, whose digest is d1 or d2.
func driver(version string) loader.Driver {
	return loader.Driver{Version: version, Flavour: payload.Open, Digest: "d" + version}
}

func stored(versions ...string) []payload.Payload {
	var out []payload.Payload
	for _, v := range versions {
		out = append(out, payload.Payload{Version: v, Digest: "d" + v, Root: "/drivers/" + v})
	}
	return out
}

func built(versions ...string) []cache.Set {
	var out []cache.Set
	for _, v := range versions {
		out = append(out, cache.Set{Key: cache.Key{Driver: v, Sources: "d" + v, Flavour: "open"}})
	}
	return out
}

// modules are the three of the driver, loaded, with one more use of the core than modules for each other one.
func modules(uses int) map[string]kernel.Loaded {
	return map[string]kernel.Loaded{
		"nvidia":         {Name: "nvidia", RefCount: 2 + uses, Holders: []string{"nvidia_modeset", "nvidia_uvm"}},
		"nvidia_uvm":     {Name: "nvidia_uvm"},
		"nvidia_modeset": {Name: "nvidia_modeset"},
	}
}

// inTree are the modules of a driver of the kernel: one with uses, and those that hold it. All hold drm.
func inTree(name string, uses int, by ...string) map[string]kernel.Loaded {
	out := map[string]kernel.Loaded{
		name:  {Name: name, RefCount: uses + len(by), Holders: by},
		"drm": {Name: "drm", RefCount: 1 + len(by), Holders: append([]string{name}, by...)},
	}
	for _, holder := range by {
		out[holder] = kernel.Loaded{Name: holder}
	}
	return out
}

// running is a node on which version 1 is loaded and ready, and 2 is in the store and built too.
func running() loader.Observation {
	one := driver("1")
	loaded := one
	loaded.Digest = ""
	return loader.Observation{
		Devices: []pci.Device{gpu("nvidia")}, Modules: modules(0), Running: loaded,
		Payloads: stored("1", "2"), Sets: built("1", "2"), Shown: "d1", Validated: one, Published: "1",
	}
}

var wantGrid = loader.Desired{Version: "1-grid", Flavour: payload.Open}

var keep2 = loader.Desired{Version: "2", Flavour: payload.Open, Keep: true}

var want1, want2 = loader.Desired{Version: "1", Flavour: payload.Open}, loader.Desired{Version: "2", Flavour: payload.Open}

func TestNext(t *testing.T) {
	all := []string{"nvidia", "nvidia_uvm", "nvidia_modeset"}
	order := []string{"nvidia_modeset", "nvidia_uvm", "nvidia"}
	broken := cause.Cause{Code: "ModuleInitFailed", Subject: "nvidia", Text: "init failed"}
	for name, tc := range map[string]struct {
		desired loader.Desired
		change  func(o *loader.Observation)
		kind    loader.Kind
		version string
		modules []string
		causes  []cause.Code
	}{
		"no GPU": {want1, func(o *loader.Observation) { o.Devices = nil }, loader.Wait, "", nil, []cause.Code{cause.NoGPU}},
		"an audio device of NVIDIA is no GPU": {
			want1, func(o *loader.Observation) { o.Devices[0].Class = 0x040300 },
			loader.Wait, "", nil,
			[]cause.Code{cause.NoGPU},
		},
		"all is as desired": {want1, nil, loader.Done, "1", nil, nil},
		"the newest driver of the store, without a version": {loader.Desired{Flavour: payload.Open}, nil, loader.Done, "1", nil, nil},
		"a daemon does not run":                             {want1, func(o *loader.Observation) { o.Daemons = []string{"nv-fabricmanager"} }, loader.Start, "1", nil, nil},
		"a driver that is not in the store":                 {loader.Desired{Version: "3"}, nil, loader.Wait, "", nil, []cause.Code{cause.DriverMissing}},

		"a driver of the host is used": {want2, func(o *loader.Observation) { o.Host, o.Published = "1", "" }, loader.Publish, "1", nil, nil},
		"… and stays as it is":         {want2, func(o *loader.Observation) { o.Host = "1" }, loader.Done, "1", nil, nil},
		"… its nodes are made":         {want2, func(o *loader.Observation) { o.Host, o.MissingNodes = "1", 2 }, loader.Nodes, "1", nil, nil},
		"… and is not loaded": {
			want2, func(o *loader.Observation) { o.Host, o.Running = "1", loader.Driver{} },
			loader.Wait, "", nil,
			[]cause.Code{cause.HostDriverNotLoaded},
		},

		"nothing is loaded or built": {want1, func(o *loader.Observation) { o.Running, o.Modules, o.Sets = loader.Driver{}, nil, nil }, loader.Build, "1", nil, nil},
		"nothing is loaded":          {want1, func(o *loader.Observation) { o.Running, o.Modules = loader.Driver{}, nil }, loader.Load, "1", all, nil},
		"the firmware comes first": {
			want1, func(o *loader.Observation) { o.Running, o.Modules, o.Shown = loader.Driver{}, nil, "" },
			loader.Show, "1", nil, nil,
		},
		"nouveau has the GPU": {want1, func(o *loader.Observation) {
			o.Running, o.Modules, o.Devices = loader.Driver{}, nil, []pci.Device{gpu("nouveau")}
		}, loader.Wait, "", nil, []cause.Code{cause.OtherDriverBound}},
		"… it can be unloaded": {want1, func(o *loader.Observation) {
			o.Running, o.Modules, o.Devices = loader.Driver{}, inTree("nouveau", 0), []pci.Device{gpu("nouveau")}
		}, loader.Unload, "1", []string{"nouveau"}, nil},
		"… something uses it": {want1, func(o *loader.Observation) {
			o.Running, o.Modules, o.Devices = loader.Driver{}, inTree("nouveau", 1), []pci.Device{gpu("nouveau")}
		}, loader.Wait, "", nil, []cause.Code{cause.OtherDriverBound}},
		"… the modules of the driver are built before": {want1, func(o *loader.Observation) {
			o.Running, o.Modules, o.Devices, o.Sets = loader.Driver{}, inTree("nouveau", 0), []pci.Device{gpu("nouveau")}, nil
		}, loader.Build, "1", nil, nil},
		"nouveau is loaded, and has no GPU": {want1, func(o *loader.Observation) {
			o.Running, o.Modules, o.Devices = loader.Driver{}, inTree("nouveau", 0), []pci.Device{gpu("")}
		}, loader.Unload, "1", []string{"nouveau"}, nil},
		"… and stays, because something uses it": {want1, func(o *loader.Observation) {
			o.Running, o.Modules, o.Devices = loader.Driver{}, inTree("nouveau", 1), []pci.Device{gpu("")}
		}, loader.Load, "1", all, nil},
		"nova_core has the GPU, and nova_drm holds it": {want1, func(o *loader.Observation) {
			o.Running, o.Modules, o.Devices = loader.Driver{}, inTree("nova_core", 0, "nova_drm"), []pci.Device{gpu("NovaCore")}
		}, loader.Unload, "1", []string{"nova_drm", "nova_core"}, nil},
		"the modules are for none of the GPUs": {want1, func(o *loader.Observation) {
			o.Running, o.Modules, o.Devices = loader.Driver{}, nil, []pci.Device{gpu("")}
			o.Devices[0].Product = 0x15f8 // Tesla P100
		}, loader.Wait, "", nil, []cause.Code{cause.ModuleTypeUnsupported}},
		"a virtual machine has one of the GPUs": {want1, func(o *loader.Observation) {
			o.Running, o.Modules, o.Devices = loader.Driver{}, nil, []pci.Device{gpu("vfio-pci"), gpu("")}
		}, loader.Load, "1", all, nil},
		"built with the other flavour": {want1, func(o *loader.Observation) {
			o.Running, o.Modules, o.Sets[0].Key.Flavour = loader.Driver{}, nil, "proprietary"
		}, loader.Build, "1", nil, nil},

		"after a reboot, there is a way back to the driver that worked": {want2, func(o *loader.Observation) {
			o.Running, o.Modules, o.Shown, o.Before = loader.Driver{}, nil, "", driver("1")
		}, loader.Begin, "2", nil, nil},
		"… unless it is not in the store": {want2, func(o *loader.Observation) {
			o.Running, o.Modules, o.Payloads, o.Before = loader.Driver{}, nil, stored("2"), driver("1")
		}, loader.Show, "2", nil, nil},

		"a module is missing":                  {want1, func(o *loader.Observation) { delete(o.Modules, "nvidia_uvm") }, loader.Load, "1", []string{"nvidia_uvm"}, nil},
		"… and is not built":                   {want1, func(o *loader.Observation) { delete(o.Modules, "nvidia_uvm"); o.Sets = nil }, loader.Build, "1", nil, nil},
		"another root is shown":                {want1, func(o *loader.Observation) { o.Shown = "d2" }, loader.Show, "1", nil, nil},
		"nodes are missing":                    {want1, func(o *loader.Observation) { o.MissingNodes = 1 }, loader.Nodes, "1", nil, nil},
		"not seen working yet":                 {want1, func(o *loader.Observation) { o.Validated = loader.Driver{} }, loader.Validate, "1", nil, nil},
		"the fact is gone":                     {want1, func(o *loader.Observation) { o.Published = "" }, loader.Publish, "1", nil, nil},
		"nothing is built, and nothing needed": {want1, func(o *loader.Observation) { o.Sets = nil }, loader.Done, "1", nil, nil},

		"a new version is built while the old one works": {want2, func(o *loader.Observation) { o.Sets = built("1") }, loader.Build, "2", nil, nil},
		"… is noted": {want2, nil, loader.Begin, "2", nil, nil},
		"… a process uses the old one": {want2, func(o *loader.Observation) {
			o.Change, o.Users = change(), []holders.Holder{{}}
		}, loader.Wait, "", nil, []cause.Code{cause.ModuleInUse}},
		"… NVML is claimed":       {want2, func(o *loader.Observation) { o.Change = change() }, loader.Claim, "2", order, nil},
		"… the old one is in use": {want2, func(o *loader.Observation) { o.Change, o.Claimed, o.Modules = change(), true, modules(1) }, loader.Wait, "", nil, []cause.Code{cause.ModuleInUse}},
		"… by processes that are known": {want2, func(o *loader.Observation) {
			o.Change, o.Claimed, o.Modules, o.Holders = change(), true, modules(2), []holders.Holder{{}, {}}
		}, loader.Wait, "", nil, []cause.Code{cause.ModuleInUse, cause.ModuleInUse}},
		"… the old one is in use, and its fact is gone": {want2, func(o *loader.Observation) {
			o.Change, o.Users, o.Before, o.Published = change(), []holders.Holder{{}}, driver("1"), ""
		}, loader.Publish, "1", nil, nil},
		"… the old one is unloaded": {want2, func(o *loader.Observation) { o.Change, o.Claimed = change(), true }, loader.Unload, "2", order, nil},
		"… half of it, when killed": {want2, func(o *loader.Observation) {
			o.Change, o.Claimed = change(), true
			delete(o.Modules, "nvidia_uvm")
		}, loader.Unload, "2", []string{"nvidia_modeset", "nvidia"}, nil},
		"… the new one is finished": {want2, func(o *loader.Observation) {
			o.Change, o.Running.Version, o.Shown, o.Validated = change(), "2", "d2", driver("2")
		}, loader.Finish, "2", nil, nil},
		"… or fails, and the old one is loaded again": {want2, func(o *loader.Observation) {
			o.Change, o.Running, o.Modules = failed(broken), loader.Driver{}, nil
		}, loader.Load, "1", all, nil},
		"… which stays, with the cause": {want2, func(o *loader.Observation) { o.Change = failed(broken) }, loader.Done, "1", nil, []cause.Code{"ModuleInitFailed"}},
		"… the new one is loaded and does not work": {want2, func(o *loader.Observation) {
			o.Change, o.Running.Version, o.Shown = failed(broken), "2", "d2"
		}, loader.Claim, "1", order, nil},
		"… the old one is not in the store": {
			want2, func(o *loader.Observation) { o.Change, o.Payloads = failed(broken), stored("2") },
			loader.Wait, "", nil,
			[]cause.Code{cause.PreviousDriverMissing},
		},
		"… another driver is desired then": {loader.Desired{Version: "3", Flavour: payload.Open}, func(o *loader.Observation) {
			o.Change, o.Payloads, o.Sets = failed(broken), stored("1", "2", "3"), built("3")
		}, loader.Begin, "3", nil, nil},
		"… and the desired one is what is loaded": {want1, func(o *loader.Observation) { o.Change = failed(broken) }, loader.Finish, "1", nil, nil},

		"another version is loaded, and somebody else decides": {keep2, func(o *loader.Observation) { o.Rehearsed = driver("2") }, loader.Done, "1", nil, nil},
		"… its modules are checked":                            {keep2, nil, loader.Rehearse, "2", nil, nil},
		"… and built before":                                   {keep2, func(o *loader.Observation) { o.Sets = built("1") }, loader.Build, "2", nil, nil},
		"… it is not in the store":                             {keep2, func(o *loader.Observation) { o.Payloads = stored("1") }, loader.Done, "1", nil, []cause.Code{cause.DriverMissing}},
		"… a change that somebody has begun ends":              {keep2, func(o *loader.Observation) { o.Change = change() }, loader.Finish, "1", nil, nil},
		"… it has failed":                                      {keep2, func(o *loader.Observation) { o.Change, o.Rehearsed = failed(broken), driver("2") }, loader.Done, "1", nil, []cause.Code{"ModuleInitFailed"}},
		"an upgrade changes the driver": {
			loader.Desired{Version: "2", Keep: true, Upgrading: "now"}, nil, loader.Wait, "", nil, []cause.Code{cause.UpgradeInProgress},
		},
		"NVIDIA's driver container has loaded the driver": {
			want2, func(o *loader.Observation) { o.Container = true }, loader.Wait, "", nil, []cause.Code{cause.DriverOfOtherContainer},
		},
		"… and this agent has taken over": {want1, func(o *loader.Observation) { o.Container, o.Noted = true, true }, loader.Done, "1", nil, nil},
		"another program has loaded the driver": {
			want2, func(o *loader.Observation) { o.Stranger = true }, loader.Wait, "", nil, []cause.Code{cause.DriverOfOtherProgram},
		},
		"… and it is the desired one": {want1, func(o *loader.Observation) { o.Stranger = true }, loader.Done, "1", nil, nil},
		"… and a flag replaces it": {
			loader.Desired{Version: "2", Flavour: payload.Open, ReplaceForeign: true},
			func(o *loader.Observation) { o.Stranger = true }, loader.Begin, "2", nil, nil,
		},
		"… and this was NVIDIA's driver container, which has ended": {
			want2, func(o *loader.Observation) { o.Stranger, o.ContainerEnded = true, true }, loader.Begin, "2", nil, nil,
		},
		"… and it stays until an upgrade": {
			keep2, func(o *loader.Observation) { o.Stranger = true }, loader.Done, "1", nil, []cause.Code{cause.DriverOfOtherProgram},
		},

		"the driver that this process has imported": {loader.Desired{Payload: "d2", Flavour: payload.Open}, nil, loader.Begin, "2", nil, nil},
		"… the store has lost it":                   {loader.Desired{Payload: "d3", Flavour: payload.Open}, nil, loader.Wait, "", nil, []cause.Code{cause.DriverMissing}},
		"… another version is named":                {loader.Desired{Version: "1", Payload: "d2", Flavour: payload.Open}, nil, loader.Done, "1", nil, nil},
		"… and another payload has its version": {loader.Desired{Version: "2", Payload: "d0", Flavour: payload.Open}, func(o *loader.Observation) {
			o.Running, o.Modules, o.Sets = loader.Driver{}, nil, []cache.Set{{Key: cache.Key{Driver: "2", Sources: "d0", Flavour: "open"}}}
			o.Payloads, o.Shown = append(o.Payloads, payload.Payload{Version: "2", Digest: "d0", Root: "/drivers/2"}), "d0"
		}, loader.Load, "2", all, nil},

		// The modules of a driver for virtual machines state a version without -grid.
		"a driver for virtual machines is loaded": {wantGrid, func(o *loader.Observation) {
			o.Payloads, o.Shown, o.Validated = stored("1-grid"), "d1-grid", driver("1-grid")
		}, loader.Done, "1-grid", nil, nil},
		"… which this agent has noted": {wantGrid, func(o *loader.Observation) {
			o.Payloads, o.Shown, o.Validated = stored("1-grid"), "d1-grid", driver("1-grid")
			o.Running, o.Noted = driver("1-grid"), true
		}, loader.Done, "1-grid", nil, nil},
		"… and the driver of the same version is desired": {want1, func(o *loader.Observation) {
			o.Running, o.Noted = driver("1-grid"), true
		}, loader.Begin, "1", nil, nil},
		"… and stays": {loader.Desired{Version: "2", Flavour: payload.Open, Keep: true}, func(o *loader.Observation) {
			o.Payloads, o.Shown, o.Validated = stored("1", "1-grid", "2"), "d1-grid", driver("1-grid")
			o.Running, o.Noted, o.Rehearsed = driver("1-grid"), true, driver("2")
		}, loader.Done, "1-grid", nil, nil},

		"a parameter that no module shows was added": {
			loader.Desired{Version: "1", Flavour: payload.Open, Params: stack.Params{"nvidia": {"x=1"}}},
			func(o *loader.Observation) { o.Noted = true }, loader.Begin, "1", nil, nil,
		},
		"… to a driver of somebody else": {
			loader.Desired{Version: "1", Flavour: payload.Open, Params: stack.Params{"nvidia": {"x=1"}}},
			nil, loader.Validate, "1", nil, nil,
		},
		"other parameters": {loader.Desired{Version: "1", Flavour: payload.Open, Params: stack.Params{"nvidia": {"NVreg_A=1"}}}, func(o *loader.Observation) {
			m := o.Modules["nvidia"]
			m.Params = map[string]string{"NVreg_A": "0"}
			o.Modules["nvidia"] = m
		}, loader.Begin, "1", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := running()
			if tc.change != nil {
				tc.change(&o)
			}
			step := loader.Next(o, tc.desired)
			if step.Kind != tc.kind || step.Driver.Version != tc.version {
				t.Errorf("%s of driver %q (%v), want %s of %q", step.Kind, step.Driver.Version, step.Causes, tc.kind, tc.version)
			}
			if d := cmp.Diff(tc.modules, step.Modules, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("modules (-want +got):\n%s", d)
			}
			var codes []cause.Code
			for _, c := range step.Causes {
				codes = append(codes, c.Code)
			}
			if d := cmp.Diff(tc.causes, codes, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("causes (-want +got):\n%s", d)
			}
		})
	}
}

// change is one from version 1 to 2.
func change() *loader.Change { return &loader.Change{From: driver("1"), To: driver("2")} }

func failed(why cause.Cause) *loader.Change {
	c := change()
	c.Failed = &why
	return c
}
