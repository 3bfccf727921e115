package config

import (
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/pkg/gpu"
)

// The names under which devices are offered where nothing else is said.
const (
	Domain = "nvidia.com/"
	// GPUResource is that of whole GPUs, and of MIG devices with strategy single.
	GPUResource = Domain + "gpu"
	// migResourcePrefix is before the profile, with strategy mixed.
	migResourcePrefix = Domain + "mig-"
)

const (
	// maxName is what Kubernetes takes.
	maxName     = 63
	nameAllowed = "a name like nvidia.com/gpu or gpu: in the domain nvidia.com, in all at most 63 characters, after the domain lower-case letters, digits, - and ."
)

// resourceName returns the fully qualified name, and whether it can be one.
func resourceName(text string) (string, bool) {
	base := strings.TrimPrefix(text, Domain)
	return Domain + base, len(Domain)+len(base) <= maxName && isSubdomain(base)
}

// isSubdomain reports whether s is one as RFC 1123 has it: words of lower-case
// letters, digits and, not at their ends, -, joined by dots.
func isSubdomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		ok := label != "" && label[0] != '-' && label[len(label)-1] != '-'
		if !ok || !only(label, "abcdefghijklmnopqrstuvwxyz0123456789-") {
			return false
		}
	}
	return true
}

// MIGResource returns the name under which MIG devices of a profile are offered
// with strategy mixed, as NVIDIA's device plugin writes it; empty for a profile
// that is not known. "+" may not stand in the name of a resource.
func MIGResource(p gpu.Profile) string {
	if p == (gpu.Profile{}) {
		return ""
	}
	return migResourcePrefix + strings.ReplaceAll(p.String(), "+", ".")
}

// IsMIGResource reports whether a profile has that name.
func IsMIGResource(name string) bool {
	profile := strings.TrimPrefix(name, migResourcePrefix)
	p, err := gpu.ParseProfile(strings.Replace(profile, "gb.", "gb+", 1))
	return err == nil && MIGResource(p) == name
}

// unknownName says why no device can have the name before it is shared; it is
// empty for a name that one can have.
func unknownName(name string, r Resources) string {
	named := func(p Pattern) bool { return p.Name == name }
	if name == GPUResource || IsMIGResource(name) ||
		slices.ContainsFunc(r.GPUs, named) || slices.ContainsFunc(r.MIG, named) {
		return ""
	}
	return fmt.Sprintf("no device is called %s: must be %s, %s<profile> like %s3g.20gb, or a name that is given under resources",
		name, GPUResource, migResourcePrefix, migResourcePrefix)
}

// onlyMIG reports whether only MIG devices can have the name, but for strategy
// single.
func onlyMIG(name string, r Resources) bool {
	named := func(p Pattern) bool { return p.Name == name }
	if slices.ContainsFunc(r.GPUs, named) {
		return false
	}
	return strings.HasPrefix(name, migResourcePrefix) || slices.ContainsFunc(r.MIG, named)
}
