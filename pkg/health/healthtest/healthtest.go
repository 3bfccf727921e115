// Package healthtest has the classes of faults with the verdict of each, for tests of all agents that
// judge the health of GPUs.
package healthtest

import (
	"strconv"

	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/health"
)

// Case is a fault of GPU 0 of a simulated node.
type Case struct {
	// settings are the arguments of "gpu-sim set", and xid is the code of an XID or 0.
	settings []string
	xid      uint64
	lost     bool
	// Severity is the verdict of every agent, also after its restart.
	Severity health.Severity
}

// Model is the model of the node.
const Model = "--model=h100-80"

// Event reports whether an event of NVML reports the fault. An agent finds any other fault when it reads
// the GPU again.
func (c Case) Event() bool { return c.xid != 0 || c.lost }

// Apply causes the fault on a node.
func (c Case) Apply(n *simtest.Node) {
	if len(c.settings) > 0 {
		n.Run(append([]string{"set"}, c.settings...)...)
	}
	if c.xid != 0 {
		n.Run("xid", "0", strconv.FormatUint(c.xid, 10))
	}
	if c.lost {
		n.Run("lose", "0")
	}
}

// Cases returns a case for each class of faults, by its name.
func Cases() map[string]Case {
	// A library without field values stands for a driver that reports no recovery action.
	const old = "nvmlDeviceGetFieldValues.return=3"
	set := func(s health.Severity, settings ...string) Case { return Case{settings: settings, Severity: s} }
	xid := func(s health.Severity, code uint64) Case { return Case{xid: code, Severity: s} }
	both := func(s health.Severity, code uint64, settings ...string) Case {
		return Case{xid: code, settings: settings, Severity: s}
	}
	return map[string]Case{
		"an XID whose reset the driver asks for": both(health.Failure, 95, "0.recovery=reset", "0.ecc-volatile-dram-uncorrected=1"),
		"an XID of a failed remapping":           both(health.Failure, 64, "0.remap-failed=1"),
		"an XID to ignore, rows wait":            both(health.Failure, 63, "0.remap-pending=1"),
		"no fault":                               {Severity: health.Ignored},
		"corrected errors":                       set(health.Ignored, "0.ecc-volatile-dram-corrected=9", "0.remap-corrected=1"),
		"a remapping that failed":                set(health.Failure, "0.remap-failed=1"),
		"a remapping that waits":                 set(health.Failure, "0.remap-pending=1"),
		"an error in DRAM":                       set(health.Failure, "0.ecc-volatile-dram-uncorrected=1"),
		"an error in SRAM":                       set(health.Failure, "0.ecc-volatile-sram-uncorrected=1"),
		"a failed remapping, old driver":         set(health.Failure, "0.remap-failed=1", old),
		"a waiting remapping, old driver":        set(health.Failure, "0.remap-pending=1", old),
		"an error in DRAM, old driver":           set(health.Failure, "0.ecc-volatile-dram-uncorrected=1", old),
		"a reset to do":                          set(health.Failure, "0.recovery=reset"),
		"a reboot to do":                         set(health.Failure, "0.recovery=reboot"),
		"peer-to-peer traffic to end":            set(health.Failure, "0.recovery=drain-p2p"),
		"programs to end before a reset":         set(health.Failure, "0.recovery=drain-and-reset"),
		"an IMEX domain to recover":              set(health.Warning, "0.recovery=recover-imex-domain"),
		"a fabric that was not joined":           set(health.Failure, "0.fabric=failed:999"),
		"a fabric that is being joined":          set(health.Warning, "0.fabric=in-progress"),
		"a GPU that is lost":                     {lost: true, Severity: health.Failure},
		"a GPU that fell off the bus":            {xid: 79, lost: true, Severity: health.Failure},
		"an XID to ignore":                       xid(health.Ignored, 63),
		"an XID of corrected errors":             xid(health.Ignored, 92),
		"an XID of NVLink privileges":            xid(health.Ignored, 137),
		"an XID of a contained error":            xid(health.Ignored, 94),
		"an XID of a program":                    xid(health.Ignored, 13),
		"an XID that needs a reset":              xid(health.Failure, 95),
		"an XID of NVLink":                       xid(health.Failure, 74),
		"an XID that needs a reboot":             xid(health.Failure, 54),
		"an XID for NVIDIA's support":            xid(health.Failure, 61),
		"an XID that no catalogue lists":         xid(health.Failure, 999),
		"XID 62, old driver":                     both(health.Failure, 62, old),
		"XID 79, old driver":                     both(health.Failure, 79, old),
		"XID 109, old driver":                    both(health.Failure, 109, old),
		"XID 119, old driver":                    both(health.Failure, 119, old),
	}
}
