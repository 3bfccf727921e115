package ready_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/golden"

	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
)

// written is when the files of these tests were written.
var written = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// node returns a node with n GPUs, of which the first ones are broken, and with
// the driver of the facts below.
func node(n, broken int) *gpu.Node {
	out := gputest.Node(gputest.H100, n)
	out.Driver.Version = "580.95.05"
	for i := range broken {
		out.GPUs[i].Fault = &gpu.Fault{Op: "nvmlDeviceGetMemoryInfo", Reason: "GPU is lost"}
	}
	return out
}

// valid returns the facts of a node on which every link holds, replaced by those
// in but.
func valid(but ...map[contract.Name]contract.Fact) map[contract.Name]contract.Fact {
	out := map[contract.Name]contract.Fact{}
	out[contract.DRAReady] = contract.Fact{State: contract.Missing, Reason: path(contract.DRAReady) + " has not been written yet"}
	for name, writer := range map[contract.Name]string{
		contract.DriverReady: "driver-loader", contract.MIGReady: "mig-manager", contract.ToolkitReady: "container-toolkit",
		contract.PluginReady: "device-plugin", contract.CUDAReady: "validation",
	} {
		out[name] = contract.Fact{State: contract.Valid, Stamp: contract.Stamp{
			BootID: "this", Writer: writer, Time: written, DriverVersion: "580.95.05", Held: name == contract.PluginReady,
		}}
	}
	for _, b := range but {
		maps.Copy(out, b)
	}
	return out
}

// fact returns one fact for valid.
func fact(n contract.Name, s contract.State, writer, reason string) map[contract.Name]contract.Fact {
	return map[contract.Name]contract.Fact{n: {State: s, Reason: reason, Stamp: contract.Stamp{Writer: writer, Time: written}}}
}

func path(n contract.Name) string { return contract.Dir{Root: "/run/nvidia"}.Path(n) }

// refresh returns an error as a refresh of the node returns it.
func refresh(format string, args ...any) error {
	return fmt.Errorf("read the GPUs of the node: "+format, args...)
}

// missing is a file that has not been written.
func missing(name contract.Name) map[contract.Name]contract.Fact {
	return fact(name, contract.Missing, "", path(name)+" has not been written yet")
}

// earlier is a file of an earlier boot.
func earlier(name contract.Name, writer string) map[contract.Name]contract.Fact {
	return fact(name, contract.Stale, writer, path(name)+" was written by "+writer+" before the last boot, at 2026-11-21T10:00:00Z")
}

// ended is a file whose writer has ended.
func ended(name contract.Name, writer string) map[contract.Name]contract.Fact {
	return fact(name, contract.WriterDead, writer, path(name)+" was written by "+writer+", which has ended since")
}

// errNotLoaded is the error of NVML's source on a node without a kernel module.
var errNotLoaded = refresh("%w: %s (nvmlInit_v2 of libnvidia-ml.so.1: Driver Not Loaded)", gpu.ErrNoDriver,
	"the kernel module nvidia is not loaded: modprobe nvidia")

// errHangs is its error for a driver that does not answer.
var errHangs = fmt.Errorf("nvmlDeviceGetMemoryInfo of GPU 3 in NVML's list has not answered for 30s: %w (look for NVRM in dmesg, drain the node, "+
	"and reset the GPU or reboot)", gpu.ErrHangs)

var errClaimed = refresh("initialize NVML: share lease /run/nvidia/leases/nvml: %w by mig-manager (apply all-1g.5gb)", contract.ErrClaimed)

type observation struct {
	observed ready.Observed
	// chain is all links if it is empty.
	chain  []ready.Link
	status string
	reason cause.Code
}

// judged adds the health of the GPUs to an observation.
func judged(o ready.Observed) ready.Observed {
	if o.Node != nil {
		m := health.New(health.Rules{})
		m.Observe(o.Node, written)
		o.Health = m.View()
	}
	return o
}

func causes() map[string]observation {
	all := func(n *gpu.Node) ready.Observed { return ready.Observed{Node: n, Facts: valid()} }
	with := func(but ...map[contract.Name]contract.Fact) ready.Observed {
		return ready.Observed{Node: node(8, 0), Facts: valid(but...)}
	}
	fails := func(n *gpu.Node, err error) ready.Observed { return ready.Observed{Node: n, Err: err, Facts: valid()} }
	asked := node(2, 0)
	asked.GPUs[1].Recovery = gpu.RecoveryReset
	imex := node(2, 0)
	imex.GPUs[1].Recovery = gpu.RecoveryIMEXDomain
	remap := node(2, 0)
	remap.GPUs[1].MemoryFaults = []gpu.MemoryFault{gpu.RowRemapFailed}
	nameless := node(2, 1)
	nameless.GPUs[0].UUID = ""
	wordy := node(2, 2)
	wordy.GPUs[0].Fault = &gpu.Fault{Op: "nvmlDeviceGetName", Reason: strings.Repeat("long ", 200)}
	upgraded := node(8, 0)
	upgraded.Driver.Version = "590.10"
	moved, rebooted := node(4, 0), node(4, 0)
	moved.GPUs = moved.GPUs[1:]
	for i := range moved.GPUs {
		moved.GPUs[i].Shifted = true
	}
	rebooted.GPUs[1].Earlier = &gpu.Earlier{Indices: []int{0}, UUID: "GPU-before"}
	return map[string]observation{
		"a GPU has left the bus":                         {observed: all(moved), status: ready.True, reason: ready.GPUsReady},
		"indices have changed with a reboot":             {observed: all(rebooted), status: ready.True, reason: ready.GPUsReady},
		"all links hold":                                 {observed: all(node(8, 0)), status: ready.True, reason: ready.GPUsReady},
		"one GPU":                                        {observed: all(node(1, 0)), chain: []ready.Link{ready.Driver}, status: ready.True, reason: ready.GPUsReady},
		"a chain without the driver":                     {observed: all(nil), chain: []ready.Link{ready.Toolkit, ready.Plugin}, status: ready.True, reason: ready.GPUsReady},
		"one of the GPUs is broken":                      {observed: all(node(8, 1)), status: ready.True, reason: ready.GPUsReady},
		"most of many GPUs are broken":                   {observed: all(node(16, 15)), status: ready.True, reason: ready.GPUsReady},
		"a GPU that is broken has no UUID":               {observed: all(nameless), status: ready.True, reason: ready.GPUsReady},
		"the driver requests a reset of a GPU":           {observed: all(asked), status: ready.True, reason: ready.GPUsReady},
		"a GPU has to be replaced":                       {observed: all(remap), status: ready.True, reason: ready.GPUsReady},
		"a GPU's IMEX domain is degraded":                {observed: all(imex), status: ready.True, reason: ready.GPUsReady},
		"all GPUs are broken":                            {observed: all(node(2, 2)), status: ready.False, reason: cause.AllGPUsFaulty},
		"a fault with too many words":                    {observed: all(wordy), status: ready.False, reason: cause.AllGPUsFaulty},
		"the driver lists no GPU":                        {observed: all(node(0, 0)), status: ready.False, reason: cause.NoGPU},
		"nothing has been read":                          {status: ready.Unknown, reason: cause.Starting},
		"the source was closed before the first refresh": {observed: fails(nil, refresh("use NVML: %w", gpu.ErrClosed)), status: ready.Unknown, reason: cause.Starting},
		"the facts have not been read":                   {observed: ready.Observed{Node: node(8, 0)}, status: ready.Unknown, reason: cause.Starting},

		"no driver":                          {observed: ready.Observed{Err: errNotLoaded}, status: ready.False, reason: cause.DriverNotFound},
		"no driver any more":                 {observed: fails(node(8, 0), errNotLoaded), status: ready.False, reason: cause.DriverNotFound},
		"no driver, and the file agrees":     {observed: ready.Observed{Err: errNotLoaded, Facts: fact(contract.DriverReady, contract.Stale, "driver-loader", "driver-loader reported driver 580.95.05, but the kernel has none")}, status: ready.False, reason: cause.DriverNotFound},
		"no driver, and there is no file":    {observed: ready.Observed{Err: errNotLoaded, Facts: missing(contract.DriverReady)}, status: ready.False, reason: cause.DriverNotFound},
		"no driver, and NVIDIA's own file":   {observed: ready.Observed{Err: errNotLoaded, Facts: map[contract.Name]contract.Fact{contract.DriverReady: {State: contract.Valid}}}, status: ready.False, reason: cause.DriverNotFound},
		"the driver hangs":                   {observed: ready.Observed{Node: node(8, 0), Hang: errHangs, Facts: valid()}, status: ready.False, reason: cause.DriverHangs},
		"a refresh ended because of a hang":  {observed: fails(node(8, 0), refresh("%w", errHangs)), status: ready.False, reason: cause.DriverHangs},
		"the driver hangs while it is gone":  {observed: ready.Observed{Err: errNotLoaded, Hang: errHangs}, status: ready.False, reason: cause.DriverHangs},
		"the driver answers with an error":   {observed: fails(node(8, 0), refresh("nvmlDeviceGetCount_v2: Unknown Error")), status: ready.False, reason: cause.DriverFails},
		"errors of several lines":            {observed: fails(nil, errors.Join(errors.New("first"), errors.New("second"))), status: ready.False, reason: cause.DriverFails},
		"NVML is claimed at the start":       {observed: fails(nil, errClaimed), status: ready.Unknown, reason: cause.DriverClaimed},
		"NVML is claimed while all is well":  {observed: fails(node(8, 0), errClaimed), status: ready.True, reason: ready.GPUsReady},
		"NVML is claimed, all GPUs broken":   {observed: fails(node(2, 2), errClaimed), status: ready.False, reason: cause.AllGPUsFaulty},
		"the source was closed for a moment": {observed: fails(node(8, 0), refresh("use NVML: %w", gpu.ErrClosed)), status: ready.True, reason: ready.GPUsReady},
		"the refresh was canceled":           {observed: fails(node(8, 0), context.Canceled), status: ready.True, reason: ready.GPUsReady},

		"toolkit-ready is missing": {observed: with(missing(contract.ToolkitReady)), status: ready.False, reason: cause.ToolkitNotReady},
		"the run root is missing": {
			observed: with(fact(contract.ToolkitReady, contract.Missing, "", "run root /run/nvidia does not exist: mount the host's folder, or point --run-root elsewhere")),
			status:   ready.False, reason: cause.ToolkitNotReady,
		},
		"toolkit-ready is from another boot": {observed: with(earlier(contract.ToolkitReady, "container-toolkit")), status: ready.False, reason: cause.ToolkitStale},
		"mig-ready is for another driver":    {observed: all(upgraded), status: ready.False, reason: cause.MIGStale},
		"toolkit-ready is for another driver": {
			observed: all(upgraded), status: ready.False, reason: cause.ToolkitStale, chain: []ready.Link{ready.Driver, ready.Toolkit},
		},
		"the last known driver differs while NVML is claimed": {
			observed: fails(upgraded, errClaimed), status: ready.True, reason: ready.GPUsReady,
		},
		"the writer of mig-ready has ended": {observed: with(ended(contract.MIGReady, "mig-manager")), status: ready.False, reason: cause.MIGWriterDead},
		"mig-ready is damaged": {
			observed: with(fact(contract.MIGReady, contract.Unreadable, "", path(contract.MIGReady)+": line 1 is not KEY=value")),
			status:   ready.False, reason: cause.MIGUnreadable,
		},
		"the writer of toolkit-ready has ended": {observed: with(ended(contract.ToolkitReady, "container-toolkit")), status: ready.False, reason: cause.ToolkitWriterDead},
		"toolkit-ready is damaged": {
			observed: with(fact(contract.ToolkitReady, contract.Unreadable, "", path(contract.ToolkitReady)+": line 1 is not KEY=value")),
			status:   ready.False, reason: cause.ToolkitUnreadable,
		},
		"plugin-ready is missing": {observed: with(missing(contract.PluginReady)), status: ready.False, reason: cause.PluginNotReady},
		"neither plugin-ready nor dra-ready is there, and there is no run root": {
			observed: with(map[contract.Name]contract.Fact{
				contract.PluginReady: {State: contract.Missing, Reason: "run root /run/nvidia does not exist: mount the host's folder, or point --run-root elsewhere"},
				contract.DRAReady:    {State: contract.Missing, Reason: "run root /run/nvidia does not exist: mount the host's folder, or point --run-root elsewhere"},
			}),
			chain: []ready.Link{ready.Driver, ready.Plugin}, status: ready.False, reason: cause.PluginNotReady,
		},
		"the DRA plugin advertises the GPUs": {
			observed: with(missing(contract.PluginReady), map[contract.Name]contract.Fact{
				contract.DRAReady: {State: contract.Valid, Stamp: contract.Stamp{Writer: "dra-plugin", Time: written, DriverVersion: "580.95.05", Held: true}},
			}),
			status: ready.True, reason: ready.GPUsReady,
		},
		"the DRA plugin has taken over from a device plugin that was killed": {
			observed: with(ended(contract.PluginReady, "device-plugin"),
				fact(contract.DRAReady, contract.Valid, "dra-plugin", "")),
			status: ready.True, reason: ready.GPUsReady,
		},
		"the DRA plugin was killed": {
			observed: with(missing(contract.PluginReady), ended(contract.DRAReady, "dra-plugin")),
			status:   ready.False, reason: cause.PluginWriterDead,
		},
		"dra-ready is for another driver": {
			observed: with(missing(contract.PluginReady), map[contract.Name]contract.Fact{
				contract.DRAReady: {State: contract.Valid, Stamp: contract.Stamp{Writer: "dra-plugin", Time: written, DriverVersion: "570.1"}},
			}),
			status: ready.False, reason: cause.PluginStale,
		},
		"plugin-ready is from another boot": {observed: with(earlier(contract.PluginReady, "device-plugin")), status: ready.False, reason: cause.PluginStale},
		"the device plugin was killed":      {observed: with(ended(contract.PluginReady, "device-plugin")), status: ready.False, reason: cause.PluginWriterDead},
		"plugin-ready cannot be opened": {
			observed: with(fact(contract.PluginReady, contract.Unreadable, "", "open "+path(contract.PluginReady)+": permission denied")),
			status:   ready.False, reason: cause.PluginUnreadable,
		},
		"mig-ready is missing": {observed: with(missing(contract.MIGReady)), status: ready.False, reason: cause.MIGNotReady},
		"mig-ready is missing on a node without a MIG mode": {
			observed: ready.Observed{
				Node:  gputest.Node(gputest.L4, 2),
				Facts: valid(fact(contract.MIGReady, contract.Missing, "", "")),
			},
			chain:  []ready.Link{ready.Driver, ready.MIG},
			status: ready.True, reason: ready.GPUsReady,
		},
		"mig-ready is missing on a node that keeps the MIG manager off": {
			observed: ready.Observed{
				Node:    node(2, 0),
				Cluster: &ready.Node{Labels: map[string]string{"nvidia.com/gpu.deploy.mig-manager": "false"}},
				Facts:   valid(fact(contract.MIGReady, contract.Missing, "", "")),
			},
			chain:  []ready.Link{ready.Driver, ready.MIG},
			status: ready.True, reason: ready.GPUsReady,
		},
		"mig-ready is missing on a node that keeps all operands off": {
			observed: ready.Observed{
				Node:    node(2, 0),
				Cluster: &ready.Node{Labels: map[string]string{"nvidia.com/gpu.deploy.mig-manager": "true", "nvidia.com/gpu.deploy.operands": "false"}},
				Facts:   valid(fact(contract.MIGReady, contract.Missing, "", "")),
			},
			chain:  []ready.Link{ready.Driver, ready.MIG},
			status: ready.True, reason: ready.GPUsReady,
		},
		"mig-ready is missing on a node that asks for the MIG manager": {
			observed: ready.Observed{
				Node:    node(2, 0),
				Cluster: &ready.Node{Labels: map[string]string{"nvidia.com/gpu.deploy.mig-manager": "true"}},
				Facts:   valid(missing(contract.MIGReady)),
			},
			status: ready.False, reason: cause.MIGNotReady,
		},
		"toolkit-ready is missing on a node that keeps the toolkit off": {
			observed: ready.Observed{
				Node:    node(2, 0),
				Cluster: &ready.Node{Labels: map[string]string{"nvidia.com/gpu.deploy.container-toolkit": "false"}},
				Facts:   valid(fact(contract.ToolkitReady, contract.Missing, "", "")),
			},
			chain:  []ready.Link{ready.Driver, ready.Toolkit},
			status: ready.True, reason: ready.GPUsReady,
		},
		"the kubelet offers no device yet": {
			observed: ready.Observed{Node: node(2, 0), Cluster: &ready.Node{}, Facts: valid()},
			status:   ready.False, reason: cause.PluginNotReady,
		},
		"the kubelet offers no device any more": {
			observed: ready.Observed{Node: node(2, 0), Cluster: &ready.Node{Registered: 2}, Facts: valid()},
			status:   ready.False, reason: cause.PluginNotReady,
		},
		"the kubelet offers some devices": {
			observed: ready.Observed{Node: node(2, 0), Cluster: &ready.Node{Offered: 1, Registered: 2}, Facts: valid()},
			status:   ready.True, reason: ready.GPUsReady,
		},
		"the DRA plugin needs no devices of the kubelet": {
			observed: ready.Observed{Node: node(2, 0), Cluster: &ready.Node{}, Facts: valid(
				fact(contract.DRAReady, contract.Valid, "dra-plugin", ""), fact(contract.PluginReady, contract.Missing, "", ""))},
			status: ready.True, reason: ready.GPUsReady,
		},
		"cuda-ready is missing":              {observed: with(missing(contract.CUDAReady)), status: ready.False, reason: cause.CUDANotReady},
		"cuda-ready is from another boot":    {observed: with(earlier(contract.CUDAReady, "validation")), status: ready.False, reason: cause.CUDAStale},
		"the writer of cuda-ready has ended": {observed: with(ended(contract.CUDAReady, "validation")), status: ready.False, reason: cause.CUDAWriterDead},
		"cuda-ready is damaged": {
			observed: with(fact(contract.CUDAReady, contract.Unreadable, "", path(contract.CUDAReady)+": file has more than 65536 bytes")),
			status:   ready.False, reason: cause.CUDAUnreadable,
		},
		"the first of several broken links is reported": {
			observed: with(missing(contract.PluginReady), missing(contract.CUDAReady)),
			status:   ready.False, reason: cause.PluginNotReady,
		},
		"a link outside of the chain does not count": {
			observed: with(fact(contract.CUDAReady, contract.Missing, "", "")), chain: []ready.Link{ready.Driver, ready.Plugin},
			status: ready.True, reason: ready.GPUsReady,
		},
		"the file driver-ready does not decide": {
			observed: with(fact(contract.DriverReady, contract.Missing, "", "")), status: ready.True, reason: ready.GPUsReady,
		},
		"a file without a stamp": {
			observed: with(map[contract.Name]contract.Fact{contract.ToolkitReady: {State: contract.Valid}}), status: ready.True, reason: ready.GPUsReady,
		},
		"a file with text that would break a terminal": {
			observed: with(fact(contract.PluginReady, contract.WriterDead, "evil\x1b[2J\nwriter"+strings.Repeat("x", 5000),
				path(contract.PluginReady)+" was written by \x1b[2J\u202e\nevil\xff, which has ended since"+strings.Repeat("€", 5000))),
			status: ready.False, reason: cause.PluginWriterDead,
		},
	}
}

// TestDerive checks the condition for each cause. The messages have a golden file
// because people read them.
func TestDerive(t *testing.T) {
	messages := map[string]string{}
	for name, tc := range causes() {
		t.Run(name, func(t *testing.T) {
			chain := tc.chain
			if chain == nil {
				chain = ready.Links()
			}
			got := ready.Derive(chain, judged(tc.observed))
			if got.Type != "GPUReady" || got.Status != tc.status || got.Reason != string(tc.reason) {
				t.Errorf("Derive() = %+v, want status %s for %s", got, tc.status, tc.reason)
			}
			checkForm(t, got)
			messages[name] = got.Status + " " + got.Reason + "\n" + got.Message
		})
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(messages)) {
		fmt.Fprintf(&b, "# %s\n%s\n\n", name, messages[name])
	}
	golden.Assert(t, b.String(), "conditions.golden")
}
