package label

import (
	"slices"
	"strings"

	"outrigger.dev/pkg/config"
)

// Own reports whether a key is Timestamp or one that Of can give. Others of the
// same domain, such as nvidia.com/mig.config and nvidia.com/gpu.deploy.driver,
// belong to whoever wrote them.
func Own(key string) bool {
	name, ok := strings.CutPrefix(key, config.Domain)
	if !ok {
		return false
	}
	if key == Timestamp || slices.Contains(names(), name) {
		return true
	}
	if rest, ok := strings.CutPrefix(name, ofGPU); ok && slices.Contains(subjectNames(), rest) {
		return true
	}
	if rest, ok := strings.CutPrefix(name, ofProduct); ok {
		return slices.ContainsFunc(productNames(), func(n string) bool {
			product, ok := strings.CutSuffix(rest, "."+n)
			return ok && product != ""
		})
	}
	return slices.ContainsFunc(classNames(), func(n string) bool {
		resource, ok := strings.CutSuffix(key, "."+n)
		return ok && config.IsMIGResource(resource)
	})
}

// names are those of labels that are there at most once and tell of no device.
func names() []string {
	return []string{
		"cuda.driver-version.full", "cuda.driver-version.major", "cuda.driver-version.minor", "cuda.driver-version.revision",
		"cuda.driver.major", "cuda.driver.minor", "cuda.driver.rev",
		"cuda.runtime-version.full", "cuda.runtime-version.major", "cuda.runtime-version.minor",
		"cuda.runtime.major", "cuda.runtime.minor",
		"gpu.clique", "gpu.machine", "gpu.mode",
		"mig.capable", "mig.strategy", "mps.capable",
		"vgpu.host-driver-branch", "vgpu.host-driver-version", "vgpu.present",
	}
}

// productNames follow the prefix of a product, classNames that of MIG devices,
// and subjectNames that of the subject, which can be either.
func productNames() []string {
	return []string{"compute.major", "compute.minor", "count", "family", "memory", "replicas", "sharing-strategy"}
}

func classNames() []string {
	return []string{
		"count", "engines.copy", "engines.decoder", "engines.encoder", "engines.jpeg", "engines.ofa", "memory",
		"multiprocessors", "product", "replicas", "sharing-strategy", "slices.ci", "slices.gi",
	}
}

func subjectNames() []string { return slices.Concat(productNames(), classNames()) }
