// Package config holds the settings for the GPUs of a node, for the agents that share one config
// file. It merges the values of flags and of the file, and validates them. It does not read files
// or the command line: package agent/gpuconfig passes both to it.
package config

import (
	"slices"
	"time"
)

// Config holds the settings in effect.
type Config struct {
	MIGStrategy MIGStrategy
	Sharing     Sharing
	Resources   Resources
	Filter      Filter
	// Policy chooses among shared devices and MIG devices.
	Policy Policy
	// GDS, MOFED and GDRCopy give their devices to every container with a GPU.
	GDS, MOFED, GDRCopy bool
	IMEX                IMEX
	// MPSRoot is the folder on the host for the pipes and logs of MPS daemons.
	MPSRoot string
	// ListStrategies has at least one entry and no duplicates.
	ListStrategies      []ListStrategy
	IDStrategy          IDStrategy
	CDIAnnotationPrefix string
	// PassDeviceSpecs adds device nodes to the answer to Allocate, unless all strategies are CDI strategies.
	PassDeviceSpecs bool
	// KubeletSocket is the registration socket of the kubelet. The plugin creates its sockets in
	// the same folder.
	KubeletSocket string
	// Register is false for a plugin that serves without registering.
	Register bool
	// FailOnInitError ends the process if the GPUs cannot be used at startup.
	FailOnInitError bool
	// CDIRoot is the folder for CDI specs.
	CDIRoot string
	// HookPath is the path of nvidia-cdi-hook on the host; empty for specs without hooks.
	HookPath string
	// CDIFeatureFlags and CDIDisableHooks change the CDI specs. The values are from NVIDIA's
	// container toolkit.
	CDIFeatureFlags []string
	CDIDisableHooks []string
	// Discovery is the way to discover GPUs.
	Discovery Discovery
	Driver    Driver
	// HealthChecks are the settings of health.Rules.
	HealthChecks HealthChecks
	// Health has the severities of other faults. Only a config file sets it.
	Health Health
	// GFD holds the settings of feature discovery.
	GFD GFD
	// Warnings has one line for each setting that is accepted but does not have its full effect. A line
	// names the flag, or the line and the key in the file.
	Warnings []string
}

// GFD holds the settings that NVIDIA's GPU Feature Discovery also has.
type GFD struct {
	OneShot     bool
	NoTimestamp bool
	// SleepInterval is the time between checks of published labels; 0 for no checks.
	SleepInterval time.Duration
	// OutputFile is the features.d file of Node Feature Discovery; empty for standard
	// output.
	OutputFile string
	// MachineTypeFile holds the product name of the machine; empty for none.
	MachineTypeFile string
	// Output is the destination of labels, if --output-file or useNodeFeatureAPI selects one.
	Output Output
}

// Output is a destination of labels.
type Output string

// The outputs.
const (
	// OutputUnset lets the agent choose.
	OutputUnset Output = ""
	// OutputFile is the features.d file, or standard output.
	OutputFile Output = "file"
	// OutputNodeFeature is the NodeFeature object of Node Feature Discovery.
	OutputNodeFeature Output = "nodefeature"
)

// Driver is the location of the driver.
type Driver struct {
	// Root is the driver root on the host.
	Root string
	// CtrRoot is the driver root's path for this process; empty to detect it.
	CtrRoot string
	// DevRoot is the folder on the host that contains dev/nvidia*; empty for the
	// driver root if it contains them, and "/" otherwise.
	DevRoot string
}

// HealthChecks decide about XIDs.
type HealthChecks struct {
	// Disable and Enable are lists of XIDs, or "all".
	Disable, Enable string
	// Quiet is health.Rules.Quiet.
	Quiet time.Duration
}

// IMEX holds the IMEX channels that containers with a GPU get.
type IMEX struct {
	// Channels is empty or {0}.
	Channels []int
	// Required withholds all devices while the node lacks the channels.
	Required bool
}

// Default returns the Config without any setting. The values are the defaults of NVIDIA's device
// plugin, with three exceptions. FailOnInitError is off, because agents wait for a driver that is
// installed late. HookPath is empty, because CDI specs need no program on the host. NVIDIA sets
// MPSRoot only in its chart.
func Default() Config {
	return Config{
		MIGStrategy:         MIGStrategyNone,
		Sharing:             Sharing{Strategy: SharingNone},
		Policy:              PolicyDistributed,
		MPSRoot:             "/run/nvidia/mps",
		ListStrategies:      []ListStrategy{ListEnvvar},
		IDStrategy:          IDUUID,
		CDIAnnotationPrefix: "cdi.k8s.io/",
		KubeletSocket:       "/var/lib/kubelet/device-plugins/kubelet.sock",
		Register:            true,
		CDIRoot:             "/var/run/cdi",
		Discovery:           DiscoveryAuto,
		Driver:              Driver{Root: "/"},
		GFD: GFD{
			SleepInterval:   sleepInterval,
			OutputFile:      "/etc/kubernetes/node-feature-discovery/features.d/gfd",
			MachineTypeFile: "/sys/class/dmi/id/product_name",
		},
	}
}

const sleepInterval = time.Minute

// CDI reports whether one of the strategies is a CDI strategy.
func (c Config) CDI() bool {
	return slices.ContainsFunc(c.ListStrategies, ListStrategy.cdi)
}

// OnlyCDI reports whether all strategies are CDI strategies.
func (c Config) OnlyCDI() bool {
	return !slices.ContainsFunc(c.ListStrategies, func(s ListStrategy) bool { return !s.cdi() })
}

func (s ListStrategy) cdi() bool { return s == ListCDICRI || s == ListCDIAnnotations }
