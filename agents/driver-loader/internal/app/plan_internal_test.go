package app

import (
	"errors"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/license"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/preflight"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/holders"
	"outrigger.dev/pkg/pci"
	"outrigger.dev/pkg/procowner"
)

const release = "6.1.0-56-amd64"

// bare is a node with a GPU and a driver in the store, on which nothing is built.
func bare() (loader.Observation, preflight.Facts) {
	o := loader.Observation{
		Devices:  []pci.Device{{BusID: "0000:17:00.0", Vendor: 0x10de, Product: 0x2330, Class: 0x030200}},
		Kernel:   kernel.Kernel{Release: release, Machine: "x86_64"},
		Payloads: []payload.Payload{{Version: "580.95.05", Digest: "d1", Root: "/d1"}},
	}
	return o, preflight.Facts{
		Headers: "/usr/src/linux-headers-" + release, Compiler: "gcc-12 (Debian 12.2.0-14) 12.2.0", Free: 20 << 30,
		Parts: map[string]string{"i2c_core": "built in", "ipmi_msghandler": "loaded", "ipmi_devintf": "installed; the agent loads it before the driver"},
	}
}

// nothing is a node on which all is in the way that can be.
func nothing() (loader.Observation, preflight.Facts) {
	on := true
	o, f := bare()
	o.Devices[0].Driver, o.Devices[0].Product = "nouveau", 0x1db4
	o.Devices = append(o.Devices, pci.Device{BusID: "0000:65:00.0", Vendor: 0x10de, Product: 0x1db4, Class: 0x030200})
	o.Kernel.Lockdown, o.Kernel.SecureBoot = "integrity", &on
	o.Payloads[0].Sources = map[payload.Flavour]string{payload.Open: "/source"}
	f.HeadersErr = cause.Cause{Code: cause.KernelHeadersMissing, Subject: "kernel " + release, Text: "its headers are nowhere", Fix: "install them"}
	f.CompilerErr = errors.New("ask cc for its version: exit status 1\x1b[31m")
	f.Free = 100 << 20
	f.Parts["i2c_core"] = ""
	return o, f
}

// used is a node whose driver is to be replaced while pods use it.
func used() (loader.Observation, preflight.Facts) {
	o, f := bare()
	o.Devices[0].Driver = "nvidia"
	o.Running = loader.Driver{Version: "570.1", Flavour: payload.Open}
	o.Sets = []cache.Set{{Key: cache.Key{Driver: "580.95.05", Sources: "d1", Flavour: "open"}}}
	o.Modules = map[string]kernel.Loaded{
		"nvidia": {Name: "nvidia", RefCount: 3, Holders: []string{"nvidia_uvm"}}, "nvidia_uvm": {Name: "nvidia_uvm", RefCount: 1},
	}
	f.Holders = []holders.Holder{{Process: procowner.Process{
		PID: 4711, Command: "python3", Owner: procowner.Owner{Pod: "u"}, Pod: procowner.Pod{Namespace: "default", Name: "train"},
	}}}
	f.HoldersErr = errors.New("cannot examine 2 processes")
	return o, f
}

// options selects the optional modules for the tests that name them.
func options(test string) stack.Options {
	if strings.Contains(test, "optional modules") {
		return stack.All()
	}
	return stack.Options{}
}

func TestPlan(t *testing.T) {
	for name, node := range map[string]func() (loader.Observation, preflight.Facts){
		"a bare node":              bare,
		"everything is in the way": nothing,
		"precompiled modules": func() (loader.Observation, preflight.Facts) {
			o, f := bare()
			_, f2 := nothing()
			f.HeadersErr, f.CompilerErr = f2.HeadersErr, f2.CompilerErr
			o.Kernel.SigEnforce = true
			o.Payloads[0].Precompiled = map[string]map[payload.Flavour]string{release: {payload.Proprietary: "/modules"}}
			return o, f
		},
		"a driver that is used": used,
		"virtual GPUs": func() (loader.Observation, preflight.Facts) {
			o, f := used()
			f.Licensed = true
			f.Products = []license.Product{
				{GPU: "00000000:02:01.0", Name: "NVIDIA Virtual Compute Server", Status: "Licensed (Expiry: 2026-1-31 9:5:7 GMT)"},
				{GPU: "00000000:03:01.0", Name: "NVIDIA Virtual Compute Server", Status: "Unlicensed (Restricted)"},
			}
			return o, f
		},
		"a license that cannot be read": func() (loader.Observation, preflight.Facts) {
			o, f := used()
			f.Licensed, f.LicenseErr = true, errors.New("run nvidia-smi -q: exit status 9: Driver Not Loaded")
			return o, f
		},
		"nouveau that is unloaded": func() (loader.Observation, preflight.Facts) {
			o, f := bare()
			o.Devices[0].Driver, o.Modules = "nouveau", map[string]kernel.Loaded{"nouveau": {Name: "nouveau"}}
			o.Sets = []cache.Set{{Key: cache.Key{Driver: "580.95.05", Sources: "d1", Flavour: "open"}}}
			return o, f
		},
		"nouveau that is used": func() (loader.Observation, preflight.Facts) {
			o, f := bare()
			o.Devices[0].Driver, o.Modules = "nouveau", map[string]kernel.Loaded{"nouveau": {Name: "nouveau", RefCount: 1}}
			o.Displays = []string{"Xorg (pid 812), which has /dev/dri/card0 open"}
			return o, f
		},
		"a driver whose load failed, and optional modules": func() (loader.Observation, preflight.Facts) {
			o, f := bare()
			o.Devices[0].Product = 0x2342 // coupled to a Grace CPU
			o.Sets = []cache.Set{{Key: cache.Key{Driver: "580.95.05", Sources: "d1", Flavour: "open"}}}
			o.Modules, o.Adapter = map[string]kernel.Loaded{"gdrdrv": {Name: "gdrdrv"}}, true
			failed := cause.New(cause.ModuleInitFailed, "module nvidia", `its initialization failed (EIO); the kernel's log: "NVRM: GPU 0000:17:00.0: RmInitAdapter failed!; NVRM: None of the NVIDIA devices were initialized."`)
			o.Failure = &loader.Failure{Driver: o.Desired(loader.Desired{}), Causes: []cause.Cause{failed}}
			o.Tried = map[string]loader.Attempt{o.Desired(loader.Desired{}).Attempt("nvidia_peermem"): {Cause: cause.New(cause.RDMAUnavailable, "module nvidia_peermem", "it was built without headers")}}
			return o, f
		},
		"a driver of another program": func() (loader.Observation, preflight.Facts) {
			o, f := used()
			o.Stranger = true
			return o, f
		},
		"a new kernel": func() (loader.Observation, preflight.Facts) {
			o, f := bare()
			f.NextKernel = loader.NextKernel{Release: "6.1.0-57-amd64"}
			return o, f
		},
		"a new kernel with modules": func() (loader.Observation, preflight.Facts) {
			o, f := bare()
			f.NextKernel = loader.NextKernel{Release: "6.1.0-57-amd64", Built: true}
			return o, f
		},
		"a new kernel without headers": func() (loader.Observation, preflight.Facts) {
			o, f := bare()
			why := cause.New(cause.KernelHeadersMissing, "kernel 6.1.0-57-amd64", "its headers are nowhere")
			f.NextKernel = loader.NextKernel{Release: "6.1.0-57-amd64", Cause: &why}
			return o, f
		},
		"a driver of the host": func() (loader.Observation, preflight.Facts) {
			o, f := used()
			o.Host = o.Running.Version
			return o, f
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, f := node()
			var out strings.Builder
			assert.NilError(t, printVerdict(&out, preflight.Derive(o, loader.Desired{Options: options(name)}, f)))
			golden.Assert(t, out.String(), "plan/"+strings.ReplaceAll(name, " ", "-")+".golden")
		})
	}
}
