// Package config holds what a user can choose about the GPUs of a node, for the
// agents that share one config file: it puts together what flags and the file
// say, and checks it. It reads no file and knows no command line; package
// agent/configfile hands it what was set there.
package config

import (
	"slices"
	"time"
)

// Config is what a user can choose.
type Config struct {
	MIGStrategy MIGStrategy
	Sharing     Sharing
	Resources   Resources
	Filter      Filter
	// Policy chooses among devices that are shared, or parts of a GPU.
	Policy Policy
	// GDS, MOFED and GDRCopy give their devices to every container with a GPU.
	GDS, MOFED, GDRCopy bool
	IMEX                IMEX
	// MPSRoot is the folder on the host for the pipes and logs of MPS daemons.
	MPSRoot string
	// ListStrategies has at least one entry, and none twice.
	ListStrategies      []ListStrategy
	IDStrategy          IDStrategy
	CDIAnnotationPrefix string
	// PassDeviceSpecs adds the device nodes to the answer, unless only CDI
	// strategies are chosen.
	PassDeviceSpecs bool
	// KubeletSocket is where the kubelet takes registrations; the plugin's own
	// sockets lie beside it.
	KubeletSocket string
	// Register is false for a plugin that serves without registering.
	Register bool
	// FailOnInitError ends the process when the first look at the node fails.
	FailOnInitError bool
	// CDIRoot is the folder for CDI specs.
	CDIRoot string
	// HookPath is nvidia-cdi-hook on the host, empty for specs without hooks.
	HookPath string
	// CDIFeatureFlags and CDIDisableHooks change what is in the CDI specs; the
	// words are those of NVIDIA's container toolkit.
	CDIFeatureFlags []string
	CDIDisableHooks []string
	// Discovery is how GPUs are found.
	Discovery Discovery
	Driver    Driver
	// HealthChecks are the lists of XIDs, for health.ParseRules.
	HealthChecks HealthChecks
	// GFD is what feature discovery alone goes by.
	GFD GFD
}

// GFD is what feature discovery is told under the names of NVIDIA's GPU Feature
// Discovery.
type GFD struct {
	OneShot     bool
	NoTimestamp bool
	// SleepInterval is the time between checks of what was published; 0 for none.
	SleepInterval time.Duration
	// OutputFile is the features.d file of Node Feature Discovery, empty for
	// standard output.
	OutputFile string
	// MachineTypeFile holds the product name of the machine; empty for none.
	MachineTypeFile string
	// Output is where labels go, as far as one of the keys says it.
	Output Output
}

// Output is where feature discovery puts labels.
type Output string

// The outputs.
const (
	// OutputUnset leaves it to the agent.
	OutputUnset Output = ""
	// OutputFile is the features.d file, or standard output.
	OutputFile Output = "file"
	// OutputNodeFeature is the object of Node Feature Discovery's API.
	OutputNodeFeature Output = "nodefeature"
)

// Driver is where the driver is.
type Driver struct {
	// Root is the driver root on the host.
	Root string
	// CtrRoot is where this process sees it; empty to find out.
	CtrRoot string
	// DevRoot is the folder on the host that holds dev/nvidia*; empty to use the
	// driver root if they are there, and "/" otherwise.
	DevRoot string
}

// HealthChecks are lists of XIDs, or "all".
type HealthChecks struct {
	Disable, Enable string
}

// IMEX says which IMEX channels containers with a GPU get.
type IMEX struct {
	// Channels is empty or {0}.
	Channels []int
	// Required makes the start fail without the channels.
	Required bool
}

// Default returns what holds where nothing is set. The values are those of
// NVIDIA's device plugin, but for FailOnInitError and HookPath: a node whose
// driver comes late needs no restart, and our CDI specs no program on the host;
// and for MPSRoot, which has a value there only in its chart.
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
			SleepInterval:   time.Minute,
			OutputFile:      "/etc/kubernetes/node-feature-discovery/features.d/gfd",
			MachineTypeFile: "/sys/class/dmi/id/product_name",
		},
	}
}

// CDI reports whether a CDI strategy is chosen.
func (c Config) CDI() bool {
	return slices.ContainsFunc(c.ListStrategies, ListStrategy.cdi)
}

// OnlyCDI reports whether all chosen strategies are CDI strategies.
func (c Config) OnlyCDI() bool {
	return !slices.ContainsFunc(c.ListStrategies, func(s ListStrategy) bool { return !s.cdi() })
}

func (s ListStrategy) cdi() bool { return s == ListCDICRI || s == ListCDIAnnotations }
