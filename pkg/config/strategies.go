package config

// ListStrategy is a way to pass the GPUs of a container to the container runtime.
type ListStrategy string

// The list strategies.
const (
	ListEnvvar         ListStrategy = "envvar"
	ListVolumeMounts   ListStrategy = "volume-mounts"
	ListCDIAnnotations ListStrategy = "cdi-annotations"
	ListCDICRI         ListStrategy = "cdi-cri"
)

// IDStrategy is a way to name GPUs to the container runtime.
type IDStrategy string

// The id strategies.
const (
	IDUUID  IDStrategy = "uuid"
	IDIndex IDStrategy = "index"
)

// MIGStrategy is a way to advertise MIG devices.
type MIGStrategy string

// The MIG strategies.
const (
	// MIGStrategyNone advertises whole GPUs only.
	MIGStrategyNone MIGStrategy = "none"
	// MIGStrategySingle advertises MIG devices, which must have one profile, under the
	// name of whole GPUs.
	MIGStrategySingle MIGStrategy = "single"
	// MIGStrategyMixed advertises MIG devices under the names of their profiles.
	MIGStrategyMixed MIGStrategy = "mixed"
)

// Policy is a way to choose devices for a container on shared hardware.
type Policy string

// The policies.
const (
	// PolicyDistributed takes from the least used hardware.
	PolicyDistributed Policy = "distributed"
	// PolicyPacked takes from the most used hardware.
	PolicyPacked Policy = "packed"
	// PolicySpread takes different hardware for each device of a request if possible, the least
	// used first.
	PolicySpread Policy = "spread"
)

// Discovery is a way to discover GPUs.
type Discovery string

// The ways to discover GPUs. DiscoveryAuto means NVML, because there is no other way.
const (
	DiscoveryAuto Discovery = "auto"
	DiscoveryNVML Discovery = "nvml"
)

// discoveryTegra is a word that other readers of the same file accept.
const discoveryTegra = "tegra"

func migStrategies() []MIGStrategy {
	return []MIGStrategy{MIGStrategyNone, MIGStrategySingle, MIGStrategyMixed}
}

func listStrategies() []ListStrategy {
	return []ListStrategy{ListEnvvar, ListVolumeMounts, ListCDIAnnotations, ListCDICRI}
}

func idStrategies() []IDStrategy { return []IDStrategy{IDUUID, IDIndex} }

func policies() []Policy { return []Policy{PolicyDistributed, PolicyPacked, PolicySpread} }

func discoveries() []Discovery { return []Discovery{DiscoveryAuto, DiscoveryNVML} }

// featureFlags returns the flags of the CDI generator in NVIDIA's container toolkit 1.20.
func featureFlags() []string {
	return []string{
		"enable-explicit-driver-libraries", "disable-nvsandboxutils", "enable-coherent-annotations",
		"disable-multiple-csv-devices", "no-additional-gids-for-device-nodes", "disable-ipc-discoverer",
	}
}

// hooks returns the CDI hooks of NVIDIA's container toolkit 1.20, and "all", which means every
// hook.
func hooks() []string {
	return []string{
		"update-application-profile", "chmod", "create-symlinks", "disable-device-node-modification",
		"enable-cuda-compat", "update-ldcache", "all",
	}
}
