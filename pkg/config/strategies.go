package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ListStrategy is a way to tell the container runtime which GPUs a container
// gets.
type ListStrategy string

// The list strategies.
const (
	ListEnvvar         ListStrategy = "envvar"
	ListVolumeMounts   ListStrategy = "volume-mounts"
	ListCDIAnnotations ListStrategy = "cdi-annotations"
	ListCDICRI         ListStrategy = "cdi-cri"
)

// IDStrategy is how GPUs are named to the container runtime.
type IDStrategy string

// The id strategies.
const (
	IDUUID  IDStrategy = "uuid"
	IDIndex IDStrategy = "index"
)

// MIGStrategy is how MIG devices are offered.
type MIGStrategy string

// The MIG strategies.
const (
	// MIGStrategyNone offers whole GPUs.
	MIGStrategyNone MIGStrategy = "none"
	// MIGStrategySingle offers MIG devices, which are all of one kind, under the
	// name of whole GPUs.
	MIGStrategySingle MIGStrategy = "single"
	// MIGStrategyMixed offers MIG devices under the names of their profiles.
	MIGStrategyMixed MIGStrategy = "mixed"
)

// Policy is how devices are chosen for a container where hardware is shared.
type Policy string

// The policies.
const (
	// PolicyDistributed takes from the least used hardware.
	PolicyDistributed Policy = "distributed"
	// PolicyPacked takes from the most used hardware.
	PolicyPacked Policy = "packed"
	// PolicySpread takes different hardware for each device of a request while
	// there is any, and of that the least used.
	PolicySpread Policy = "spread"
)

// Discovery is how GPUs are found.
type Discovery string

// The ways to find GPUs; auto is NVML, as long as there is no other.
const (
	DiscoveryAuto Discovery = "auto"
	DiscoveryNVML Discovery = "nvml"
)

// discoveryTegra is known to other programs that read the same file.
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

// featureFlags are those of the CDI generator of NVIDIA's container toolkit
// 1.20.
func featureFlags() []string {
	return []string{
		"enable-explicit-driver-libraries", "disable-nvsandboxutils", "enable-coherent-annotations",
		"disable-multiple-csv-devices", "no-additional-gids-for-device-nodes", "disable-ipc-discoverer",
	}
}

// hooks are the CDI hooks of NVIDIA's container toolkit 1.20, and all of them.
func hooks() []string {
	return []string{
		"update-application-profile", "chmod", "create-symlinks", "disable-device-node-modification",
		"enable-cuda-compat", "update-ldcache", "all",
	}
}

// words checks values against those that are allowed; flag names them.
func words[T ~string](flag string, values, allowed []T) error {
	var errs []error
	for _, v := range values {
		if !slices.Contains(allowed, v) {
			errs = append(errs, badFlag(flag, string(v), oneOf(allowed)))
		}
	}
	return errors.Join(errs...)
}

func badFlag(flag, value, allowed string) error {
	return fmt.Errorf("flag --%s: invalid value %q: must be %s", flag, value, allowed)
}

// oneOf joins words as "a, b or c".
func oneOf[T ~string](allowed []T) string {
	list := make([]string, len(allowed))
	for i, w := range allowed {
		list[i] = string(w)
	}
	last := len(list) - 1
	if last < 1 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:last], ", ") + " or " + list[last]
}
